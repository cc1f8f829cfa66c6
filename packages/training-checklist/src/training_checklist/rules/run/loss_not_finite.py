import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.stages import FirstStep
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: FirstStep, limits: Any) -> Iterator[Hit]:
    if step.loss is not None and not math.isfinite(step.loss):
        yield Hit(f"the first loss is {step.loss}", step.place.beside(batch=0))


RULE = Rule(
    id="run/loss-not-finite",
    item="fast_dev_run",
    question="Is the first loss a finite number?",
    why="every weight becomes NaN with the first step of the optimizer",
    severity=FAILED,
    evidence=FirstStep,
    judge=judge,
    fix=Fix("the first looks at the data, the second at the network", items=("limit_batches", "overflow")),
    faulty=lambda: FirstStep(loss=math.nan, automatic=True),
    healthy=lambda: FirstStep(loss=2.3, automatic=True),
    symptom=True,
)
