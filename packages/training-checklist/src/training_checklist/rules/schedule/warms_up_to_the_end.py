from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Rehearsal
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    if schedule.warms_up_to_the_end:
        rates = schedule.rates
        what = f"the learning rate rises from {rates[0]:.3g} to {rates[-1]:.3g} to the very end: the run has"
        yield Hit(f"{what} {schedule.run}", schedule.place)


RULE = Rule(
    id="schedule/warms-up-to-the-end",
    item="learning",
    question="Does the warm-up of the learning rate end before the run does?",
    why="the run never gets to the rate that was meant, nor to the decay after it: the schedule is made for more steps",
    severity=FAILED,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("count what it is stepped by: trainer.estimated_stepping_batches with interval=step"),
    faulty=lambda: Rehearsal("LambdaLR()", "step", 1, 10, 50, 5, 10, [call / 200 for call in range(51)]),
    healthy=lambda: Rehearsal("LambdaLR()", "step", 1, 10, 50, 5, 10, [min(call / 10, 1) for call in range(51)]),
)
