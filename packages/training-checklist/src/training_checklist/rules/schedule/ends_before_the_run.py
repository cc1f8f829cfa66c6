from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Rehearsal
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    if schedule.error:
        what = f"it ends after {len(schedule.rates) - 1} calls, and the run has {schedule.run}"
        yield Hit(f"{what}: {schedule.error.splitlines()[0]}", schedule.place)


RULE = Rule(
    id="schedule/ends-before-the-run",
    item="learning",
    question="Can the lr_scheduler be stepped until the run ends, without an exception?",
    why="training ends with an exception",
    severity=FAILED,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("total_steps=trainer.estimated_stepping_batches with interval=step"),
    faulty=lambda: Rehearsal(
        "OneCycleLR(total_steps=2)", "step", 1, 10, 50, 5, 10, [0.1, 0.2, 0.1], 2, True, "Tried to step 3 times."
    ),
    healthy=lambda: Rehearsal("OneCycleLR(total_steps=2)", "step", 1, 1, 2, 2, 1, [0.1, 0.2, 0.1], 2, True),
)
