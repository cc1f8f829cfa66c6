from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Calls
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(calls: Calls, limits: Any) -> Iterator[Hit]:
    if calls.early:
        yield Hit(f"{calls.schedule} is stepped before the optimizer has taken a step", calls.place)


RULE = Rule(
    id="schedule/before-the-optimizer",
    item="learning",
    question="Is optimizer.step() called before the first lr_scheduler.step()?",
    why="the first rate of the schedule is never used",
    severity=WARNING,
    evidence=Calls,
    judge=judge,
    fix=Fix("step it after the optimizer: in on_train_batch_end or on_train_epoch_end, or leave it to Lightning"),
    faulty=lambda: Calls("StepLR(step_size=1)", turns=0, within=0, by_hand=2, early=True),
    healthy=lambda: Calls("StepLR(step_size=1)", turns=0, within=0, by_hand=2),
)
