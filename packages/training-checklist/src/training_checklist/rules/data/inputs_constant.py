from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Entering
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(inputs: Entering, limits: Any) -> Iterator[Hit]:
    # A smaller input may be the same number for a reason: a constant feature, the mask of samples of one length.
    if inputs.low == inputs.high and (inputs.largest or inputs.low == 0):
        what = "the network" if inputs.largest else f"it from {inputs.place.note}"
        yield Hit(f"all values that enter {what} are {inputs.low:.3g}", inputs.place)


RULE = Rule(
    id="data/inputs-constant",
    item="limit_batches",
    question="Do inputs tell samples apart?",
    why="there is nothing to learn from inputs that are all the same",
    severity=FAILED,
    evidence=Entering,
    judge=judge,
    fix=Fix("look for an integer division, or a factor 0, on the way from the file"),
    faulty=lambda: Entering(0.0, 0.0),
    # Nodes of a graph without features.
    healthy=lambda: Entering(1.0, 1.0, largest=False),
)
