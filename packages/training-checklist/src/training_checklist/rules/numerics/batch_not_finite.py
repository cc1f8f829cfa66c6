import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import ForwardPass
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(step: ForwardPass, limits: Any) -> Iterator[Hit]:
    if step.batch and not step.weights:
        yield Hit(f"{step.seen}: the batch holds NaN or Inf", Place(note="the batch"))


RULE = Rule(
    id="numerics/batch-not-finite",
    item="overflow",
    question="Is the batch finite where the loss is not?",
    why="the network is given them: the data is at fault",
    severity=FAILED,
    evidence=ForwardPass,
    judge=judge,
    fix=Fix(items=("limit_batches",)),
    faulty=lambda: ForwardPass(math.nan, "the loss is nan", batch=True),
    healthy=lambda: ForwardPass(2.3, ""),
    symptom=True,
)
