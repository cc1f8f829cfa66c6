from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import BackwardPasses, BadOperation
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(passes: BackwardPasses, limits: Any) -> Iterator[Hit]:
    if not passes.fp16:
        raise CannotJudge("no step was tried in FP16; checks.overflow.probe=true tries one")
    if passes.bad is not None:
        yield Hit(
            f"in FP16 autocast the loss is {passes.loss:.4g}, and "
            f"backward of {passes.bad.name} makes the first {passes.bad.kind}",
            passes.bad.place,
        )


RULE = Rule(
    id="numerics/gradients-not-finite-in-fp16",
    item="overflow",
    question="Are gradients finite in FP16 where the loss is?",
    why="a slope is beyond 65504, or an eps that keeps an operand away from 0 is itself 0 in FP16",
    severity=FAILED,
    evidence=BackwardPasses,
    judge=judge,
    fix=Fix("keep the operand away from the edge with an eps of 1e-4 or more", ("trainer.precision=bf16-mixed",)),
    faulty=lambda: BackwardPasses(0, BadOperation("NaN", "Div"), 2.3, reaches=True, fp16=True),
    healthy=lambda: BackwardPasses(0, None, 2.3, fp16=True),
)
