from collections.abc import Iterator
from math import isfinite
from typing import Any

from training_checklist.evidence.epochs import MeanOfBatches
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(value: MeanOfBatches, limits: Any) -> Iterator[Hit]:
    apart = abs(value.mean - value.whole)
    if isfinite(apart) and apart > limits.max_apart * abs(value.whole):
        yield Hit(
            f"{value.name} is the mean of what {value.function} makes of each of {value.batches} batches, "
            f"{value.mean:.4g}; of all samples it makes {value.whole:.4g}",
            value.place,
        )


RULE = Rule(
    id="learning/mean-of-batches",
    item="learning",
    question="Is each validation metric computed from all samples, and not averaged over batches?",
    why="a mean is right of errors and of shares of right answers; an F1 score, an area, a root or a perplexity of "
    "batches has another mean than the whole, which changes with their size and order",
    severity=WARNING,
    evidence=MeanOfBatches,
    judge=judge,
    fix=Fix(
        "log the metric itself, self.log(name, metric), after metric.update(...); or collect answers, and compute once "
        "in on_validation_epoch_end"
    ),
    faulty=lambda: MeanOfBatches("val/f1", "MulticlassF1Score", 0.42, 0.55, 8),
    healthy=lambda: MeanOfBatches("val/acc", "multiclass_accuracy", 0.55, 0.55, 8),
    thresholds={"max_apart": Threshold(0.01, "relative: training runs are told apart by less than a hundredth")},
)
