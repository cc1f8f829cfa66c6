from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import OtherDimension, OtherDimensions, by
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(dimensions: OtherDimensions, limits: Any) -> Iterator[Hit]:
    for each in dimensions.found:
        yield Hit(
            f"{each.operation} is over dim {each.dim} of {by(each.shape)}, in which {each.criterion} has the "
            "classes in dim 1",
            each.place,
        )


RULE = Rule(
    id="network/over-another-dimension",
    item="trace",
    question="Do softmax and argmax run over the classes?",
    why="scores of other positions or samples are compared with each other, and not those of the classes",
    severity=FAILED,
    evidence=OtherDimensions,
    judge=judge,
    fix=Fix("give it dim=1"),
    faulty=lambda: OtherDimensions([OtherDimension("softmax", (16, 4, 40, 40), 3, "cross_entropy")]),
    healthy=lambda: OtherDimensions([]),
)
