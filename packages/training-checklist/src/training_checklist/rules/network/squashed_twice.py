from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Squash, SquashesFound
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(squashes: SquashesFound, limits: Any) -> Iterator[Hit]:
    for call in squashes.calls:
        yield Hit(
            f"{call.function} takes any number, and is given what a {call.made_by} has put between 0 and 1",
            call.place,
        )


RULE = Rule(
    id="network/squashed-twice",
    item="trace",
    question="Do the functions of a loss that take logits get logits?",
    why="answers can differ by 1 at most, so that no answer is ever sure, and gradients are small",
    severity=FAILED,
    evidence=SquashesFound,
    judge=judge,
    fix=Fix("remove the sigmoid or softmax in front: the loss has its own"),
    faulty=lambda: SquashesFound([Squash("logsigmoid", "sigmoid")]),
    healthy=SquashesFound,
)
