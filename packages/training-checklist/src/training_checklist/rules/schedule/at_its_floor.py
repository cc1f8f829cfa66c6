from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Rehearsal, near
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    end = schedule.floor
    if end is None or schedule.floor_after_epochs:
        return
    what = (
        f"the learning rate falls from {max(schedule.rates):.3g} to {schedule.rates[-1]:.3g} in {end} of "
        f"{schedule.calls:.0f} calls and stays there: the run has {schedule.run}"
    )
    one_epoch = schedule.interval == "step" and (near(end, schedule.per_epoch) or near(end, schedule.batches))
    # Nobody trains all epochs but one at the floor on purpose.
    if one_epoch or (schedule.interval == "step" and schedule.epochs > 1 and end < schedule.per_epoch):
        made_for = f"; it is made for one epoch, of {schedule.epochs:g}" if one_epoch else ""
        yield Hit(f"{what}{made_for}", schedule.place, severity=FAILED)
    else:
        yield Hit(what, schedule.place)


RULE = Rule(
    id="schedule/at-its-floor",
    item="learning",
    question="Does the lr_scheduler reach its lowest learning rate only near the end of the run?",
    why="the rest of the run trains at the lowest rate, and learns next to nothing",
    severity=WARNING,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("make it for all steps: trainer.estimated_stepping_batches, with interval=step"),
    faulty=lambda: Rehearsal("LambdaLR()", "step", 1, 10, 80, 8, 10, [max(1 - call / 10, 0.02) for call in range(81)]),
    healthy=lambda: Rehearsal("LambdaLR()", "step", 1, 10, 80, 8, 10, [max(1 - call / 80, 0.02) for call in range(81)]),
)
