from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import LeftInEval
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(left: LeftInEval, limits: Any) -> Iterator[Hit]:
    if left.call:
        yield Hit(f"{left.call} amid training, and no train() after it: what follows trains in eval mode", left.place)


RULE = Rule(
    id="learning/eval-without-train",
    item="learning",
    question="Is train() called after each eval() that a hook calls during training?",
    why="dropout does nothing from then on, and BatchNorm keeps its statistics; Lightning leaves eval() as it is",
    severity=WARNING,
    evidence=LeftInEval,
    judge=judge,
    fix=Fix("was = module.training; module.eval(); ...; module.train(was)"),
    faulty=lambda: LeftInEval("pl_module.eval()"),
    healthy=lambda: LeftInEval(""),
)
