from dataclasses import replace

from training_checklist.instruments import MANY, ROUNDED, SMOOTH, SPLIT, Schedules, along
from training_checklist.probe import FAILED, WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        end = each.floor(limits)
        if end is None or each.is_floor_after_epochs(end, limits):  # that is schedule/counted-in-epochs's
            continue
        what = (
            f"the learning rate falls from {max(each.rates):.3g} to {each.rates[-1]:.3g} in {end} of "
            f"{each.calls:.0f} calls and stays there: the run has {each.run}"
        )
        # Nobody trains all epochs but one at the floor on purpose.
        is_of_one = (
            each.interval == "step" and each.epochs > 1 and round(min(end / each.per_epoch, end / each.batches)) <= 1
        )
        made_for = f"; it is made for one epoch, of {each.epochs:g}" if is_of_one else ""
        yield Hit(f"{what}{made_for}", each.place, severity=FAILED if is_of_one else None)


def to_a_floor(end: int, floor: float = 0.02, **options: int) -> object:
    return along((0, 1.0), (end, floor), **options)


PROBE = Probe(
    question="Does the lr_scheduler reach its lowest learning rate only near the end of the run?",
    why="the rest of the run trains at the lowest rate, and learns next to nothing",
    severity=WARNING,
    may_be_wrong="a schedule that is followed by training at a low constant rate reaches its floor early on purpose",
    fix=Fix("make it for all steps: trainer.estimated_stepping_batches, with interval=step"),
    detect=detect,
    thresholds={
        "many": replace(MANY, faulty=to_a_floor(10), healthy=to_a_floor(16)),
        "max_split": replace(SPLIT, faulty=to_a_floor(7), healthy=to_a_floor(6)),
        "max_rounding": replace(
            ROUNDED,
            faulty=to_a_floor(21, epochs=10, trainer={"accumulate_grad_batches": 2}),
            healthy=to_a_floor(22, epochs=10, trainer={"accumulate_grad_batches": 2}),
        ),
        "min_smooth": replace(SMOOTH, faulty=to_a_floor(8), healthy=to_a_floor(3)),
        "max_lr_floor": Threshold(
            0.1,
            "of its peak: what one milestone of MultiStepLR makes of a rate by default; at a higher one, training goes "
            "on",
            factor=2.0,
            faulty=to_a_floor(10, 0.08),
            healthy=to_a_floor(10, 0.15),
        ),
    },
    faulty=to_a_floor(10),
    healthy=to_a_floor(40),
)
