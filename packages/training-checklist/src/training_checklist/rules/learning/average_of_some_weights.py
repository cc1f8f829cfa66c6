from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.averages import Copies
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(copies: Copies, limits: Any) -> Iterator[Hit]:
    if copies.moved and copies.still:
        what = f"{len(copies.moved)} tensors of {copies.owner} follow the weights that they were copied from, and never"
        yield Hit(f"{what} these {len(copies.still)}: {', '.join(copies.still[:3])}", copies.place)


RULE = Rule(
    id="learning/average-of-some-weights",
    item="learning",
    question="Does a moving average, or another copy of the weights, follow every weight that is trained?",
    why="what it answers with is one network's weights beside the initial ones of another",
    severity=WARNING,
    evidence=Copies,
    judge=judge,
    fix=Fix("go over all of parameters(), by no part of their names"),
    faulty=lambda: Copies("target", ["target.0.weight"], ["target.0.bias"]),
    healthy=lambda: Copies("target", ["target.0.weight", "target.0.bias"], []),
)
