from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Rehearsal
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    if schedule.calls < 1 and schedule.frequency > 1 and not schedule.error:
        of = f"{schedule.batches} batches" if schedule.interval == "step" else f"{schedule.epochs:g} epochs"
        yield Hit(f"it is never stepped: frequency={schedule.frequency}, but there are {of} to count", schedule.place)


RULE = Rule(
    id="schedule/never-stepped",
    item="learning",
    question="Does the run have enough steps or epochs for the lr_scheduler's frequency to step it at least once?",
    why="the learning rate stays what it is at first",
    severity=FAILED,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("frequency=1 where configure_optimizers returns the schedule"),
    faulty=lambda: Rehearsal("StepLR(step_size=1)", "step", 100, 10, 50, 5, 0, [0.1]),
    healthy=lambda: Rehearsal("StepLR(step_size=1)", "step", 5, 10, 50, 5, 2, [0.1] * 11),
)
