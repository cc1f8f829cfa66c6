from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Modes
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(modes: Modes, limits: Any) -> Iterator[Hit]:
    if modes.live:
        yield Hit(
            f"{', '.join(modes.live[:3])}.training is True during validation", Place(module=", ".join(modes.live))
        )


RULE = Rule(
    id="learning/training-mode-in-validation",
    item="learning",
    question="Are all modules in eval mode during validation?",
    why="norms then use the batch and not their running statistics, learn from validation data, and dropout is on",
    severity=FAILED,
    evidence=Modes,
    judge=judge,
    fix=Fix("no train() in validation; Lightning switches modes itself"),
    faulty=lambda: Modes(live=["net.norm"]),
    healthy=lambda: Modes(others=["net.norm"]),
)
