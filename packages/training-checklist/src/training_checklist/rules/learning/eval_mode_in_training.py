from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Modes
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(modes: Modes, limits: Any) -> Iterator[Hit]:
    if modes.asleep:
        yield Hit(
            f"{', '.join(modes.asleep[:3])}.training is False while parameters of it train",
            modes.put_to_sleep.beside(module=", ".join(modes.asleep)),
            severity=WARNING if modes.others else FAILED,
        )


RULE = Rule(
    id="learning/eval-mode-in-training",
    item="learning",
    question="Are all modules whose parameters are trained in training mode?",
    why="dropout does nothing then, and BatchNorm keeps its first statistics; Lightning leaves eval() as it is",
    severity=FAILED,
    evidence=Modes,
    judge=judge,
    fix=Fix("no eval() outside of validation, or train() before fit; freeze what is to stay as it is"),
    faulty=lambda: Modes(asleep=["net.norm", "net.drop"]),
    healthy=lambda: Modes(others=["net.norm", "net.drop"]),
)
