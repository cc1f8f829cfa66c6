import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import BackwardPasses, BadOperation
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(passes: BackwardPasses, limits: Any) -> Iterator[Hit]:
    if passes.bad is None or not math.isfinite(passes.loss):
        return
    what = f"backward of {passes.bad.name} makes {passes.bad.kind} in step {passes.steps}, from finite gradients"
    if passes.reaches:
        yield Hit(f"{what}, at a loss of {passes.loss:.4g}", passes.bad.place)
    else:
        why = "something after it, such as ReLU, puts 0 in its place; without that, weights behind it would be NaN"
        yield Hit(f"{what}, which reaches no parameter", passes.bad.place, why, severity=WARNING)


RULE = Rule(
    id="numerics/backward-not-finite",
    item="anomaly",
    question="Is what backward makes of finite gradients finite?",
    why="the forward value is finite but its slope is not: sqrt, norm or std at 0, log or division near 0, "
    "or 0 * inf in a masked branch; every weight behind it is NaN after this step",
    severity=FAILED,
    evidence=BackwardPasses,
    judge=judge,
    fix=Fix("keep the operand away from the edge: an eps inside, as in (x + 1e-12).sqrt() or x / (std + 1e-6)"),
    faulty=lambda: BackwardPasses(3, BadOperation("NaN", "Sqrt", Place(module="net")), 2.3, reaches=True),
    healthy=lambda: BackwardPasses(10, None, 2.3),
)
