from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import ZeroGradients
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(zero: ZeroGradients, limits: Any) -> Iterator[Hit]:
    if zero.names:
        by = f"; backward of {zero.operation} is given one and passes on only zeros" if zero.operation else ""
        yield Hit(
            f"the gradients of {len(zero.names)} of {zero.total} parameters are exactly 0 in all steps{by}",
            zero.place.beside(parameter=shown(zero.names)),
        )


RULE = Rule(
    id="gradients/always-zero",
    item="gradients",
    question="Does every weight get a gradient other than 0 in at least one step?",
    why="a factor 0, a ReLU that is 0 for every sample, a function without a slope (sign, round, clamp), an input of "
    "zeros: the weights behind it stay as they are",
    severity=FAILED,
    evidence=ZeroGradients,
    judge=judge,
    fix=Fix("it shows what goes in and out of each module", items=("trace",)),
    faulty=lambda: ZeroGradients(["net.weight"], 4, "Mul"),
    healthy=lambda: ZeroGradients([], 4),
)
