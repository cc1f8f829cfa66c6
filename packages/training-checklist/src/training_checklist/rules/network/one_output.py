from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput, by
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    if given.name == "cross_entropy" and len(given.shape) > 1 and given.shape[1] == 1:
        yield Hit(f"cross_entropy gets one output for each sample ({by(given.shape)})", given.place)


RULE = Rule(
    id="network/one-output",
    item="trace",
    question="Does cross_entropy get an output for each class?",
    why="the softmax of a single output is 1 whatever it is: the loss is always 0",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("give the network an output for each class, or use BCEWithLogitsLoss"),
    faulty=lambda: CriterionInput("cross_entropy", (16, 1), (16,)),
    healthy=lambda: CriterionInput("cross_entropy", (16, 2), (16,)),
)
