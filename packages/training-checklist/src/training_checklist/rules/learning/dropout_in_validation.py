from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Modes
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(modes: Modes, limits: Any) -> Iterator[Hit]:
    for place in modes.drops:
        yield Hit("dropout is at work during validation", place)


RULE = Rule(
    id="learning/dropout-in-validation",
    item="learning",
    question="Is dropout off during validation?",
    why="each pass over the same data gives another result, worse than what the network can do",
    severity=FAILED,
    evidence=Modes,
    judge=judge,
    fix=Fix("F.dropout(x, p, training=self.training), nn.Dropout, or no train() in validation"),
    faulty=lambda: Modes(drops=[Place(file="model.py", line=7)]),
    healthy=lambda: Modes(),
)
