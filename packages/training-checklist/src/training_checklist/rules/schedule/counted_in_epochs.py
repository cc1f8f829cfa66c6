from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import MUCH, Rehearsal, near
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    if schedule.error or schedule.interval != "step" or schedule.epochs < 2:
        return
    if schedule.floor is not None and not schedule.floor_after_epochs:  # that is schedule/at-its-floor's
        return
    peak, whole = max(schedule.rates), schedule.made_for
    later = schedule.rates[max(1, int(schedule.per_epoch)) :]
    if later and max(later) < limits.min_rate * peak:
        what = (
            f"the learning rate falls from {peak:.3g} to {later[0]:.1e} within the first epoch of {schedule.epochs:g}"
        )
        yield Hit(what, schedule.place)
    # A schedule that begins anew may do so within an epoch, but hardly by chance once for every epoch.
    elif schedule.calls >= MUCH * whole and near(whole, schedule.epochs):
        what = f"it is made for {whole} calls and gets {schedule.calls:.0f}: the run has {schedule.run}"
        yield Hit(what, schedule.place)
    elif schedule.floor_after_epochs:
        what = f"it is at its floor after {schedule.floor} of {schedule.calls:.0f} calls: the run has {schedule.run}"
        yield Hit(what, schedule.place)


RULE = Rule(
    id="schedule/counted-in-epochs",
    item="learning",
    question="Are the lengths of an lr_scheduler with interval='step' given in steps, and not in epochs?",
    why="it looks written for epochs, and it is stepped by batches",
    severity=FAILED,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("interval=epoch where configure_optimizers returns the schedule", overrides=("scheduler.interval=epoch",)),
    faulty=lambda: Rehearsal("StepLR(step_size=1)", "step", 1, 10, 50, 5, 10, [0.5**call for call in range(51)]),
    healthy=lambda: Rehearsal(
        "ExponentialLR(gamma=0.99)", "step", 1, 10, 50, 5, 10, [0.99**call for call in range(51)]
    ),
    thresholds={
        "min_rate": Threshold(
            0.03,
            "of its peak, after its first epoch; one milestone with the default gamma leaves a tenth, as is often "
            "meant, and two leave a hundredth, at which training usually ends: this is between them",
        )
    },
)
