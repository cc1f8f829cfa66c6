from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    if given.name == "binary_cross_entropy" and (given.low < 0 or given.high > 1):
        yield Hit(f"binary_cross_entropy gets {given.range}, no probabilities", given.place)


RULE = Rule(
    id="network/logits-into-bce",
    item="trace",
    question="Does BCELoss get probabilities?",
    why="it takes the logarithm of its input and of 1 minus it",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("use BCEWithLogitsLoss"),
    faulty=lambda: CriterionInput("binary_cross_entropy", (16, 4), (16, 4), -2.1, 1.7),
    healthy=lambda: CriterionInput("binary_cross_entropy", (16, 4), (16, 4), 0.0, 1.0),
)
