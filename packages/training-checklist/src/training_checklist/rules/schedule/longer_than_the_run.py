from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import MUCH, Rehearsal, near
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    in_steps = schedule.interval == "epoch" and near(schedule.made_for, schedule.steps)
    if schedule.is_cycle and schedule.made_for > MUCH * schedule.calls > 0 and not in_steps:
        what = f"it is made for {schedule.made_for} calls and gets {schedule.calls:.0f}: the run has {schedule.run}"
        yield Hit(f"{what}; the last rate is {schedule.rates[-1]:.3g}", schedule.place)
    elif schedule.first_change > schedule.calls:
        what = f"call {schedule.first_change:.0f} is the first that changes a rate, and the run has {schedule.run}"
        yield Hit(f"{what}: it ends by the lesser of max_steps and max_epochs", schedule.place)


RULE = Rule(
    id="schedule/longer-than-the-run",
    item="learning",
    question="Does the lr_scheduler come to its end, or to its first change, before the run ends?",
    why="the run ends long before the schedule does, which was to lower the rate in the end",
    severity=FAILED,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("total_steps=trainer.estimated_stepping_batches with interval=step"),
    faulty=lambda: Rehearsal("OneCycleLR(total_steps=900)", "step", 1, 10, 50, 5, 10, [0.1] * 51, 900, True),
    healthy=lambda: Rehearsal("OneCycleLR(total_steps=50)", "step", 1, 10, 50, 5, 10, [0.1] * 51, 50, True),
)
