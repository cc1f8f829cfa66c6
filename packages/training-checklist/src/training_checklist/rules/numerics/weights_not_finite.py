import math
from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.numerics import ForwardPass
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(step: ForwardPass, limits: Any) -> Iterator[Hit]:
    if step.weights and step.eps is None:
        yield Hit(f"{step.seen}: weights are NaN or Inf already", Place(parameter=shown(step.weights)))


RULE = Rule(
    id="numerics/weights-not-finite",
    item="overflow",
    question="Are the weights finite that a step starts from?",
    why="they were made so before this step, by their initialisation, a checkpoint, or the step before",
    severity=FAILED,
    evidence=ForwardPass,
    judge=judge,
    fix=Fix("in step 0 look at how they are initialised or loaded; later, at the step before", items=("gradients",)),
    faulty=lambda: ForwardPass(math.nan, "the loss is nan", weights=["head.bias"]),
    healthy=lambda: ForwardPass(2.3, ""),
)
