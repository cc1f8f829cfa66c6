from collections.abc import Iterator
from math import isclose
from typing import Any

from training_checklist.evidence.epochs import MetricArguments
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(metric: MetricArguments, limits: Any) -> Iterator[Hit]:
    if not metric.first or metric.second:
        return
    if metric.value is None or metric.exchanged is None:
        raise CannotJudge(f"{metric.path} computes nothing from its arguments the other way round")
    if isclose(metric.value, metric.exchanged, rel_tol=1e-6):  # more than rounding: float32 has 7 digits
        return
    yield Hit(
        f"{metric.path} is given {metric.first} as the predictions, and what the network answers as the target: "
        f"{metric.value:.4g} in this batch, and {metric.exchanged:.4g} the other way round",
        metric.place.beside(module=f"{metric.path} ({metric.type})"),
    )


RULE = Rule(
    id="learning/metric-arguments-exchanged",
    item="learning",
    question="Does each metric get predictions first, and targets second?",
    why="such a metric is another number when the two are exchanged, and looks as plausible",
    severity=FAILED,
    evidence=MetricArguments,
    judge=judge,
    fix=Fix("metrics of torchmetrics take (predictions, targets); name them: update(preds=..., target=...)"),
    faulty=lambda: MetricArguments("r2", "R2Score", "batch['target']", "", 0.91, 0.93),
    # The squared error is the same both ways.
    healthy=lambda: MetricArguments("mse", "MeanSquaredError", "batch['target']", "", 0.25, 0.25),
)
