from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.answers import Answered
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(answered: Answered, limits: Any) -> Iterator[Hit]:
    if not answered.ignored:
        raise CannotJudge("the criterion ignores no target")
    for name in answered.counting_ignored:
        yield Hit(
            f"{name} is {answered.one_elsewhere[name]:.4g} or {answered.other_elsewhere[name]:.4g}, as the network "
            f"answers this or that at the {answered.ignored} places whose target the criterion ignores",
            answered.place.beside(function=answered.step, note=name),
        )


RULE = Rule(
    id="learning/metric-counts-ignored",
    item="learning",
    question="Do metrics ignore the same targets as the criterion (ignore_index)?",
    why="padding counts as right or as wrong answers, so that the metric tells how long sequences are",
    severity=FAILED,
    evidence=Answered,
    judge=judge,
    fix=Fix("give the metric the criterion's ignore_index, or only the positions that are no padding"),
    faulty=lambda: Answered(
        "validation_step", one_elsewhere={"val/f1": 0.61}, other_elsewhere={"val/f1": 0.34}, ignored=120
    ),
    healthy=lambda: Answered(
        "validation_step", one_elsewhere={"val/f1": 0.61}, other_elsewhere={"val/f1": 0.61}, ignored=120
    ),
)
