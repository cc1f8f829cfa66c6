from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradcheck import FunctionSlopes, Slopes, Trial
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(function: FunctionSlopes, limits: Any) -> Iterator[Hit]:
    if function.slopes.reason:
        raise CannotJudge(f"{function.name}: {function.slopes.reason}")
    if function.slopes.differ(limits.wrong_backward):
        yield Hit(
            f"the backward of {function.name} is not the slope of its forward for input {function.input}: "
            f"{function.slopes}",
            function.place.beside(note=f"applied in {function.applied}"),
            fix=Fix(
                f"correct what backward returns for {function.input}; gradients that are meant to differ need a "
                "forward that is the identity, or constant in steps, to be told from mistakes"
            ),
        )


RULE = Rule(
    id="gradcheck/wrong-backward",
    item="gradcheck",
    question="Is the backward of every autograd.Function of the project's own the slope of its forward?",
    why="the optimizer follows a gradient that is not the loss's, and nothing raises",
    severity=FAILED,
    evidence=FunctionSlopes,
    judge=judge,
    fix=Fix("correct what backward returns"),
    faulty=lambda: FunctionSlopes("Square", "value", Slopes([Trial(False, [(1.0, 2.0)])] * 3), Place(line=1)),
    healthy=lambda: FunctionSlopes("Square", "value", Slopes([Trial(False, [(1.0, 2.0)]), Trial(True, [(2.0, 2.0)])])),
    thresholds={
        "wrong_backward": Threshold(
            0.01,
            "of the larger slope: central differences with a step of 1e-3 are off by its square, 1e-6, and a "
            "forward that computes in float32 by about 1e-7 / 1e-3 = 1e-4; a factor that was forgotten is off by half",
        )
    },
)
