from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import FirstLoss
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(first: FirstLoss, limits: Any) -> Iterator[Hit]:
    if first.mean > first.chance + limits.max_first_excess:
        yield Hit(
            f"the first loss is {first.mean:.4g}; who knows nothing has ln {first.classes} = {first.chance:.4g}. "
            f"Outputs reach {first.largest:.3g}",
            first.place,
        )


RULE = Rule(
    id="learning/first-loss-above-chance",
    item="learning",
    question="Is the first loss no higher than that of random guessing (ln C for C classes)?",
    why="the network is sure of wrong answers before training, which has to undo that first",
    severity=FAILED,
    evidence=FirstLoss,
    judge=judge,
    fix=Fix("scale inputs to standard deviation 1, and the last layer's weights", items=("trace", "limit_batches")),
    faulty=lambda: FirstLoss(mean=40.0, chance=2.303, classes=10, largest=120.0),
    healthy=lambda: FirstLoss(mean=2.4, chance=2.303, classes=10, largest=0.4),
    thresholds={
        "max_first_excess": Threshold(
            8.0, "nats above ln C; a last layer initialised for a ReLU after it has 6, as measured, and still learns"
        )
    },
)
