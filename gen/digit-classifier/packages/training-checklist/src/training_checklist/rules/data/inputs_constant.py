from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import InputScale
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(inputs: InputScale, limits: Any) -> Iterator[Hit]:
    if inputs.low == inputs.high:
        yield Hit(f"all values that enter the network are {inputs.low:.3g}", inputs.place)


RULE = Rule(
    id="data/inputs-constant",
    item="limit_batches",
    question="Do inputs tell samples apart?",
    why="there is nothing to learn from inputs that are all the same",
    severity=FAILED,
    evidence=InputScale,
    judge=judge,
    fix=Fix("look for an integer division, or a factor 0, on the way from the file"),
    faulty=lambda: InputScale(0.0, 0.0, 0.0, 0.0, pixels=True),
    healthy=lambda: InputScale(0.001, 0.03, 0.0, 1.0, pixels=False),
)
