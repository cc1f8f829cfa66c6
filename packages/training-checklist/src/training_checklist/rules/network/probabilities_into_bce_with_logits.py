from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    if given.name == "binary_cross_entropy_with_logits" and given.made_by in ("Sigmoid", "Softmax"):
        what = f"{given.name} gets probabilities: {given.range}, the output of a {given.made_by.lower()}"
        yield Hit(what, given.place)


RULE = Rule(
    id="network/probabilities-into-bce-with-logits",
    item="trace",
    question="Does BCEWithLogitsLoss get logits?",
    why="it applies a sigmoid of its own: no probability below 0.5 or above 0.73 can come out",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("remove the sigmoid or softmax from the network"),
    faulty=lambda: CriterionInput("binary_cross_entropy_with_logits", (16, 4), (16, 4), 0.1, 0.9, made_by="Sigmoid"),
    healthy=lambda: CriterionInput("binary_cross_entropy_with_logits", (16, 4), (16, 4), 0.1, 0.9, made_by="Addmm"),
)
