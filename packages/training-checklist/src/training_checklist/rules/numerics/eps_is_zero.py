import math
from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.numerics import ForwardPass
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(step: ForwardPass, limits: Any) -> Iterator[Hit]:
    if not step.weights or step.eps is None:
        return
    eps, optimizer, dtype = step.eps
    yield Hit(
        f"{step.seen}: {optimizer} has made weights NaN or Inf",
        Place(key="optimizer.eps", value=f"{eps:g}", parameter=shown(step.weights)),
        f"{optimizer} divides by the root of squared gradients plus eps, and eps={eps:g} is 0 in {dtype}: 0 / 0",
    )


RULE = Rule(
    id="numerics/eps-is-zero",
    item="overflow",
    question="Is the optimizer's eps more than 0 in the type of its weights?",
    why="the optimizer divides 0 by 0 where a gradient is 0",
    severity=FAILED,
    evidence=ForwardPass,
    judge=judge,
    fix=Fix("the least that FP16 holds is 6e-8; or set optimizer.eps=0.0001", ("trainer.precision=bf16-mixed",)),
    faulty=lambda: ForwardPass(math.nan, "the loss is nan", weights=["head.bias"], eps=(1e-8, "Adam", "float16")),
    healthy=lambda: ForwardPass(2.3, "", eps=(1e-8, "Adam", "float16")),
)
