from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.answers import Answered
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(answered: Answered, limits: Any) -> Iterator[Hit]:
    if answered.loss is None:
        raise CannotJudge(f"{answered.step} returns no loss")
    right, wrong = answered.loss
    if right > wrong + limits.more * max(abs(right), abs(wrong)):
        yield Hit(
            f"the loss of {answered.step} is {right:.4g} where each answer is right, and {wrong:.4g} where each is "
            "wrong",
            answered.place.beside(function=answered.step),
        )


RULE = Rule(
    id="learning/wrong-answers-preferred",
    item="learning",
    question="Is the loss lower for right predictions than for wrong ones?",
    why="training leads away from what the targets ask for",
    severity=FAILED,
    evidence=Answered,
    judge=judge,
    fix=Fix("look at the sign of each part of the loss: what grows as answers become right is subtracted"),
    faulty=lambda: Answered("training_step", {}, {}, (14.2, 0.4)),
    healthy=lambda: Answered("training_step", {}, {}, (0.4, 14.2)),
    thresholds={"more": Threshold(1e-4, "relative: the same float32 numbers, added up in another order")},
)
