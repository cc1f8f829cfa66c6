from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import Inputs
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(inputs: Inputs, limits: Any) -> Iterator[Hit]:
    if inputs.untold:
        raise CannotJudge(inputs.untold)
    if abs(inputs.effect) < limits.rounding:
        what = "exchanging the labels of the very samples that it is trained on does not change the loss"
        yield Hit(what, Place(note="the network"))


RULE = Rule(
    id="learning/inputs-without-effect",
    item="learning",
    question="Do the network's outputs depend on its inputs?",
    why="its outputs do not depend on its inputs: a network fed zeros learns as well",
    severity=FAILED,
    evidence=Inputs,
    judge=judge,
    fix=Fix("the first looks at the network, the second at the inputs", items=("trace", "limit_batches")),
    faulty=lambda: Inputs(effect=1e-8),
    healthy=lambda: Inputs(effect=1e-3),
    thresholds={"rounding": Threshold(1e-5, "share of the loss; float32 keeps 7 digits, of which sums lose some")},
)
