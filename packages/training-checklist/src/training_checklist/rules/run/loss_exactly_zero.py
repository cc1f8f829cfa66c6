from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.stages import FirstStep
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: FirstStep, limits: Any) -> Iterator[Hit]:
    if step.loss == 0:
        yield Hit("the first loss is exactly 0", step.place.beside(batch=0))


RULE = Rule(
    id="run/loss-exactly-zero",
    item="fast_dev_run",
    question="Is there anything to learn from the first batch?",
    why="an untrained network cannot be right: the loss is detached from labels or outputs, or multiplied by 0",
    severity=FAILED,
    evidence=FirstStep,
    judge=judge,
    fix=Fix(items=("gradients",)),
    faulty=lambda: FirstStep(loss=0.0, automatic=True),
    healthy=lambda: FirstStep(loss=1e-6, automatic=True),
)
