from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import MetricState
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(metric: MetricState, limits: Any) -> Iterator[Hit]:
    if metric.is_mixed:
        yield Hit(
            f"{metric.path} holds {metric.known} updates when a {metric.stage} epoch begins, and {metric.batches} "
            f"batches add to them",
            Place(module=f"{metric.path} ({metric.type})"),
        )


RULE = Rule(
    id="learning/metric-mixes-epochs",
    item="learning",
    question="Is each metric reset between epochs, and between training and validation?",
    why="its value mixes epochs, or training with validation",
    severity=FAILED,
    evidence=MetricState,
    judge=judge,
    fix=Fix("reset() it at the end of each epoch, and give each stage a metric of its own"),
    faulty=lambda: MetricState("val_accuracy", "MulticlassAccuracy", "validation", known=10, batches=10, held=20),
    healthy=lambda: MetricState("val_accuracy", "MulticlassAccuracy", "validation", known=0, batches=10, held=10),
)
