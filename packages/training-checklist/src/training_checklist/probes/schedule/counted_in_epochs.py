from dataclasses import replace
from functools import partial
from math import cos, pi

from torch.optim.lr_scheduler import CosineAnnealingLR

from training_checklist.instruments import MANY, SPLIT, Schedules, along, by_factor, limits_of, near, scheduled
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        if each.error or each.interval != "step" or each.epochs < 2:
            continue
        floor, peak = each.floor(limits_of("schedule/at-its-floor")), max(each.rates)
        later = each.rates[max(1, int(each.per_epoch)) :]
        if floor is not None and not each.is_floor_after_epochs(floor, limits):  # that is schedule/at-its-floor's
            continue
        if later and max(later) < limits.min_rate * peak:
            what = (
                f"the learning rate falls from {peak:.3g} to {later[0]:.1e} within the first epoch of {each.epochs:g}"
            )
            yield Hit(what, each.place, fix=each.stepped("epoch"))
        # A schedule that begins anew may do so within an epoch, but hardly by chance once for every epoch.
        elif each.calls >= limits.many * each.made_for and near(each.made_for, each.epochs, limits):
            yield Hit(each.gets, each.place, fix=each.stepped("epoch"))
        elif floor is not None:
            yield Hit(
                f"it is at its floor after {floor} of {each.calls:.0f} calls: the run has {each.run}",
                each.place,
                fix=each.stepped("epoch"),
            )


def cosine(length: int, **run: int) -> object:
    return scheduled(partial(CosineAnnealingLR, T_max=length), **run)


PROBE = Probe(
    question="Are the lengths of an lr_scheduler with interval='step' given in steps, and not in epochs?",
    why="it looks written for epochs, and it is stepped by batches",
    fix=Fix("interval=epoch where configure_optimizers returns the schedule", overrides=("scheduler.interval=epoch",)),
    detect=detect,
    thresholds={
        "many": replace(MANY, faulty=cosine(5, batch_size=8), healthy=cosine(5, batch_size=16)),
        "max_split": replace(SPLIT, faulty=cosine(5, epochs=6), healthy=cosine(5, epochs=7)),
        "min_rate": Threshold(
            0.03,
            "of its peak, after its first epoch; one milestone with the default gamma leaves a tenth, as is often "
            "meant, and two leave a hundredth, at which training usually ends: this is between them",
            factor=2.0,
            faulty=along((0, 1), (4, 1), (5, 0.02)),
            healthy=along((0, 1), (4, 1), (5, 0.04)),
        ),
    },
    faulty=cosine(5),
    also_faulty=(by_factor(lambda call: (1 + cos(pi * (call - 1) / 4)) / 2 if call else 0.5),),
    healthy=cosine(40),
)
