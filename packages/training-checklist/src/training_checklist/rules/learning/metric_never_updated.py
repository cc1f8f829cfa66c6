from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import MetricState
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(metric: MetricState, limits: Any) -> Iterator[Hit]:
    if metric.held == 0 and metric.batches > 1:
        yield Hit(
            f"{metric.path} is computed after {metric.batches} batches of {metric.stage}, and no update has come",
            Place(module=f"{metric.path} ({metric.type})"),
        )


RULE = Rule(
    id="learning/metric-never-updated",
    item="learning",
    question="Is each metric updated with at least one batch before it is computed?",
    why="its value is that of nothing, such as 0, and says as little",
    severity=WARNING,
    evidence=MetricState,
    judge=judge,
    fix=Fix("update it in each step, before reset() and after compute() of the epoch before"),
    faulty=lambda: MetricState("val_accuracy", "MulticlassAccuracy", "validation", known=0, batches=10, held=0),
    healthy=lambda: MetricState("val_accuracy", "MulticlassAccuracy", "validation", known=0, batches=10, held=10),
)
