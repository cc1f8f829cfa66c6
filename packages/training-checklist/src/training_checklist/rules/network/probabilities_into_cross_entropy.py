from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    made = "each row sums to 1" if given.over_classes == "probabilities" else ""
    made = made or ("the output of a sigmoid" if given.made_by == "Sigmoid" else "")
    if given.name == "cross_entropy" and made and given.shape[1] > 1:
        yield Hit(f"cross_entropy gets probabilities and not logits: {given.range}, {made}", given.place)


RULE = Rule(
    id="network/probabilities-into-cross-entropy",
    item="trace",
    question="Does cross_entropy get logits, and not probabilities?",
    why="it applies a softmax of its own: the loss cannot fall below that of a hesitant answer, and gradients fade",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("remove the softmax (or sigmoid) from the network, or use NLLLoss on log_softmax"),
    faulty=lambda: CriterionInput("cross_entropy", (16, 4), (16,), 0.1, 0.6, over_classes="probabilities"),
    healthy=lambda: CriterionInput("cross_entropy", (16, 4), (16,), -3.0, -0.2, over_classes="log-probabilities"),
)
