import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.stages import LoggedMetrics
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(metrics: LoggedMetrics, limits: Any) -> Iterator[Hit]:
    for name, value in metrics.values.items():
        if not math.isfinite(value):
            yield Hit(f"the metric {name} is {value} after one batch", Place(source=f"self.log({name!r}, ...)"))


RULE = Rule(
    id="run/metric-not-finite",
    item="fast_dev_run",
    question="Is every logged metric a finite number?",
    why="checkpoints and early stopping compare by metrics, and NaN is never better than anything",
    severity=FAILED,
    evidence=LoggedMetrics,
    judge=judge,
    fix=Fix("look at what the metric divides by", items=("limit_batches",)),
    faulty=lambda: LoggedMetrics({"val/f1": math.nan}),
    healthy=lambda: LoggedMetrics({"val/f1": 0.0}),
)
