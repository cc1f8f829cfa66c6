from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

MADE = {"Relu": "a ReLU", "Threshold": "a threshold", "Hardtanh": "a hardtanh", "Tanh": "a tanh"}
CLAMPS = ("Clamp", "ClampMin")  # at any number: they cut logits where that is 0


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    made = MADE.get(given.made_by)
    cut = given.made_by in CLAMPS and given.low == 0 and given.zeros > 0
    if given.name == "cross_entropy" and len(given.shape) > 1 and given.shape[1] > 1 and (made or cut):
        zeros = f", {given.zeros:.0%} of them exactly 0" if given.zeros else ""
        yield Hit(f"cross_entropy gets logits that {made or 'a clamp'} has cut: {given.range}{zeros}", given.place)


RULE = Rule(
    id="network/bounded-logits",
    item="trace",
    question="Can the logits take any value?",
    why="the network cannot say no (a ReLU), or not be sure (a tanh), and where logits are cut they have no gradient",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("remove the activation after the last layer"),
    faulty=lambda: CriterionInput("cross_entropy", (16, 4), (16,), 0.0, 2.0, zeros=0.5, made_by="Relu"),
    healthy=lambda: CriterionInput("cross_entropy", (16, 4), (16,), 0.0, 2.0, zeros=0.5, made_by="Addmm"),
)
