from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Rehearsal
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    peak = max(schedule.course, default=0.0)
    if 0 < schedule.base < limits.factor and 0 < peak < limits.share * schedule.base:
        squared = abs(peak / schedule.base**2 - 1) < limits.share
        why = " - its square: the function returns a rate, and is multiplied by the rate" if squared else ""
        yield Hit(
            f"the learning rate is {peak:.3g} at most, and {schedule.base:.3g} is configured{why}", schedule.place
        )


RULE = Rule(
    id="schedule/never-near-the-rate",
    item="learning",
    question="Does the learning rate come near the optimizer's lr at some point of the lr_scheduler?",
    why="schedules multiply the optimizer's rate by a factor, and most reach 1: the run learns next to nothing",
    severity=WARNING,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("let the function of LambdaLR return a factor of the optimizer's rate, from 0 to 1"),
    faulty=lambda: Rehearsal("LambdaLR()", "step", 1, 10, 80, 8, 10, [6.4e-5] * 81, base=0.008),
    # As of Vaswani et al. (2017), 5.3: a rate of 1, and a function that makes it.
    healthy=lambda: Rehearsal("LambdaLR()", "step", 1, 10, 80, 8, 10, [6.4e-5] * 81, base=1.0),
    thresholds={
        "share": Threshold(0.1, "of the configured rate: rates are chosen by powers of ten"),
        "factor": Threshold(0.5, "a rate from which on it is a factor: schedules like Noam's multiply 1 or 2"),
    },
)
