from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Mixing
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(mixing: Mixing, limits: Any) -> Iterator[Hit]:
    if not mixing.calls:
        raise CannotJudge("the batch cannot be told from the other dimensions of what the modules are given")
    for operation, place, size in mixing.found:
        yield Hit(
            f"one sample changes the outputs of the others: {operation} mixes the {size} samples of the batch", place
        )


RULE = Rule(
    id="gradients/samples-mix",
    item="gradients",
    question="Does each sample's output depend on that sample only, and not on others of its batch?",
    why="what the model answers for a sample depends on what happens to be beside it, also in eval mode",
    severity=FAILED,
    evidence=Mixing,
    judge=judge,
    fix=Fix("let it work along the features: softmax(dim=-1), mean(dim=1), batch_first=True"),
    faulty=lambda: Mixing(1, [("softmax", Place(module="net"), 16)]),
    healthy=lambda: Mixing(1),
)
