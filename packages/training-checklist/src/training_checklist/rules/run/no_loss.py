from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.stages import FirstStep
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: FirstStep, limits: Any) -> Iterator[Hit]:
    if step.loss is None and step.automatic:
        yield Hit("training_step returned None, so that Lightning skipped the batch without a word", step.place)


RULE = Rule(
    id="run/no-loss",
    item="fast_dev_run",
    question="Does training_step return a loss?",
    why="no gradient is computed and no weight changes in such a step",
    severity=FAILED,
    evidence=FirstStep,
    judge=judge,
    fix=Fix("return the loss; return None on purpose only, to skip a batch"),
    faulty=lambda: FirstStep(loss=None, automatic=True),
    healthy=lambda: FirstStep(loss=None, automatic=False),
)
