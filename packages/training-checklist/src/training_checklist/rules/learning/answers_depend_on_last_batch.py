from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.answers import AfterAnother
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(after: AfterAnother, limits: Any) -> Iterator[Hit]:
    if after.differs:
        yield Hit(
            "layers answer otherwise to a batch of validation when another batch came before it, with the same "
            "weights and random numbers: something is carried over from one batch to the next",
            after.place,
        )


RULE = Rule(
    id="learning/answers-depend-on-last-batch",
    item="learning",
    question="Are the outputs for a validation batch the same, whatever batch came before it?",
    why="a hidden state of other samples, or something kept from the last batch, enters the answers",
    severity=FAILED,
    evidence=AfterAnother,
    judge=judge,
    fix=Fix("begin each batch with a state of its own, or with zeros; look for what forward() keeps on self"),
    faulty=lambda: AfterAnother(True),
    healthy=lambda: AfterAnother(False),
)
