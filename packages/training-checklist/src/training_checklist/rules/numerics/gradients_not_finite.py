from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import BackwardPasses, BadOperation
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(passes: BackwardPasses, limits: Any) -> Iterator[Hit]:
    if passes.bad is not None and not passes.fp16:
        yield Hit(
            f"in step {passes.steps} the loss is {passes.loss:.4g}, and "
            f"backward of {passes.bad.name} makes the first {passes.bad.kind}",
            passes.bad.place,
        )


RULE = Rule(
    id="numerics/gradients-not-finite",
    item="overflow",
    question="Are all gradients finite where the loss is?",
    why="the forward value is finite, its slope is not: a root or norm at 0, a division near 0",
    severity=FAILED,
    evidence=BackwardPasses,
    judge=judge,
    fix=Fix("keep the operand away from the edge with an eps inside", items=("anomaly",)),
    faulty=lambda: BackwardPasses(3, BadOperation("NaN", "Sqrt"), 2.3, reaches=True),
    healthy=lambda: BackwardPasses(10, None, 2.3),
    symptom=True,
)
