import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import BadOperation, ForwardPass
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(step: ForwardPass, limits: Any) -> Iterator[Hit]:
    bad = step.bad
    if math.isfinite(step.loss) or step.weights or step.batch:
        return
    if bad is None:
        where = f"{step.module}, the first module with Inf or NaN in its output" if step.module else "training_step"
        yield Hit(f"{step.seen}; no operation was seen to make it", Place(note=where))
    elif not (step.only_fp16 or (bad.dtype == "float16" and bad.exact is not None)):
        yield Hit(
            f"{step.seen}: {bad.name} makes the first {bad.kind} ({bad.dtype}), from values up to {bad.given:.3g}",
            bad.place.beside(note=f"it goes into {bad.reached}" if bad.reached else ""),
        )


RULE = Rule(
    id="numerics/forward-not-finite",
    item="overflow",
    question="Is the loss finite?",
    why="the 16-bit range is not to blame, FP32 has it too: a division by 0, a log or root at the edge, "
    "exp of too much, or Inf - Inf",
    severity=FAILED,
    evidence=ForwardPass,
    judge=judge,
    fix=Fix("keep the operand away from the edge: x / (std + 1e-6), x.clamp_min(1e-6).log()"),
    faulty=lambda: ForwardPass(math.nan, "the loss is nan", BadOperation("NaN", "div", Place(module="net"))),
    healthy=lambda: ForwardPass(2.3, ""),
)
