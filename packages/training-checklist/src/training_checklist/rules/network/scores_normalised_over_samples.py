from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput, by
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

NORMALISED = ("cross_entropy", "nll_loss", "kl_div")


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    made = given.made_by in ("Softmax", "LogSoftmax")  # of which network/softmax-over-samples tells
    if given.name in NORMALISED and given.over_samples and not given.over_classes and not made:
        shape = by(given.shape)
        what = (
            f"{given.name} gets {given.over_samples} over dim 0: the columns of {shape} sum to 1, and the rows do not"
        )
        yield Hit(what, given.place)


RULE = Rule(
    id="network/scores-normalised-over-samples",
    item="trace",
    question="Are scores normalised over the classes, and not over the samples?",
    why="each sample's scores depend on the other samples of its batch",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("divide by the sum over dim=1"),
    faulty=lambda: CriterionInput("cross_entropy", (16, 4), (16,), 0.0, 0.3, over_samples="probabilities"),
    healthy=lambda: CriterionInput("cross_entropy", (16, 4), (16,), -0.3, 0.3),
)
