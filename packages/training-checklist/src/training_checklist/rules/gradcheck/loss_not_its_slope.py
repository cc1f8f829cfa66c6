from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradcheck import LossSlopes, Slopes, Trial
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(loss: LossSlopes, limits: Any) -> Iterator[Hit]:
    if loss.slopes.reason:
        raise CannotJudge(f"criterion not checked: {loss.slopes.reason}")
    if loss.slopes.differ(limits.wrong_loss):
        yield Hit(
            f"the gradient of the loss is not its slope, as a function of what {loss.module} returns: {loss.slopes}",
            loss.place.beside(note=f"between {loss.module} and the loss"),
        )


RULE = Rule(
    id="gradcheck/loss-not-its-slope",
    item="gradcheck",
    question="Is the gradient of the loss its slope, as a function of the network's output?",
    why="the optimizer follows a gradient that is not the loss's, and nothing raises",
    severity=FAILED,
    evidence=LossSlopes,
    judge=judge,
    fix=Fix("look for .item(), float(), numpy and .data there, hooks on tensors, and backward methods"),
    faulty=lambda: LossSlopes("net", Slopes([Trial(False, [(1.0, 2.0)])] * 3), 40, Place(function="Net.training_step")),
    healthy=lambda: LossSlopes("net", Slopes([Trial(True, [(2.0, 2.0)])])),
    thresholds={
        "wrong_loss": Threshold(
            0.01,
            "of the larger slope: central differences with a step of 1e-3 are off by its square, 1e-6, and a "
            "criterion that computes in float32 by about 1e-7 / 1e-3 = 1e-4; a factor by its value is off by far more",
        )
    },
)
