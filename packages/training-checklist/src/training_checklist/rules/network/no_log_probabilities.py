from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    if len(given.shape) < 2 or given.over_samples:  # that is another rule's
        return
    known = [given.over_classes, *([given.over_last] if given.name == "kl_div" else [])]
    got = next((each for each in known if each), "logits")
    # What a divergence of other shapes than (B, C) is over, nobody knows.
    unclear = given.name == "kl_div" and got == "logits" and len(given.shape) > 2
    if given.name in ("nll_loss", "kl_div") and got != "log-probabilities" and not unclear:
        yield Hit(f"{given.name} gets {got} and not log-probabilities: {given.range}", given.place)


RULE = Rule(
    id="network/no-log-probabilities",
    item="trace",
    question="Do nll_loss and kl_div get log-probabilities?",
    why="it only picks the score of the right class: the loss can fall without bound and means no likelihood",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("put log_softmax(dim=1) before it, and not softmax; or use CrossEntropyLoss"),
    faulty=lambda: CriterionInput("nll_loss", (16, 4), (16,), 0.1, 0.6, over_classes="probabilities"),
    healthy=lambda: CriterionInput("nll_loss", (16, 4), (16,), -3.0, -0.2, over_classes="log-probabilities"),
)
