from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Rehearsal
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    if schedule.leap is not None:
        start, before, after = schedule.rates[0], schedule.rates[schedule.leap - 1], schedule.rates[schedule.leap]
        what = f"the learning rate rises in even steps from {start:.3g} to {before:.3g}, and call {schedule.leap} makes"
        yield Hit(f"{what} it {after:.3g}", schedule.place)


RULE = Rule(
    id="schedule/leaps-after-warm-up",
    item="learning",
    question="Does the warm-up end at the learning rate with which the lr_scheduler goes on?",
    why="the leap is what the warm-up was to spare the network: the two parts are made for different rates",
    severity=WARNING,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("let the warm-up end at the rate, or factor, with which the part after it begins"),
    faulty=lambda: Rehearsal("LambdaLR()", "epoch", 1, 10, 60, 6, 1, [0.01, 0.02, 0.03, 0.04, 0.2, 0.1, 0.0]),
    healthy=lambda: Rehearsal("LambdaLR()", "epoch", 1, 10, 60, 6, 1, [0.05, 0.1, 0.15, 0.2, 0.25, 0.1, 0.0]),
)
