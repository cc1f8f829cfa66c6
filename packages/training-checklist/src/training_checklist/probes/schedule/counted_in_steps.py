from dataclasses import replace
from functools import partial
from itertools import pairwise

from torch.optim.lr_scheduler import CosineAnnealingLR

from training_checklist.instruments import MANY, SPLIT, Rehearsal, Schedules, along, near, scheduled
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        if each.error or each.interval != "epoch" or each.calls < 1:
            continue
        course, peak, run = each.course, max(each.course), f"the run has {each.run}"
        if each.made_for > limits.many * each.calls and is_of_steps(each.made_for, each, limits):
            yield Hit(f"{each.gets}; the last rate is {each.rates[-1]:.3g}", each.place, fix=each.stepped("step"))
        elif decays_over_steps(each, limits):
            what = f"it falls over some {each.steps:.0f} calls and gets {each.calls:.0f}: {run}"
            yield Hit(
                f"{what}; the last rate is {each.rates[-1]:.3g} of {peak:.3g}", each.place, fix=each.stepped("step")
            )
        elif is_warm_up_of_steps(each, limits):
            what = f"it rises until call {course.index(peak)} and gets {each.calls:.0f} in a run of {each.run}"
            yield Hit(
                f"{what}; of its {peak:.3g} the rate reaches {max(each.rates):.3g}",
                each.place,
                fix=each.stepped("step"),
            )


def is_of_steps(length: float, schedule: Rehearsal, limits: Limits) -> bool:
    """Whether a length is that of the run in steps, and not in epochs: as files ask for it, or the command line."""
    in_steps = any(near(length, schedule.steps * times, limits) for times in (1, schedule.cut))
    return in_steps and not near(length, schedule.uncut, limits)


def end_of(schedule: Rehearsal, limits: Limits) -> tuple[int, bool]:
    """Return the last call with a rate that counts, and whether rates only fall from the peak to an end after it."""
    course, peak = schedule.course, max(schedule.course)
    # The tail of a cosine or a power is flat: a cosine comes to a twentieth after 0.86 of its length.
    last = max((call for call, rate in enumerate(course) if rate > limits.min_tail * peak), default=0)
    falls = all(later <= earlier for earlier, later in pairwise(course[course.index(peak) :]))
    return last, falls and last < len(course) - 1


def decays_over_steps(schedule: Rehearsal, limits: Limits) -> bool:
    """Whether a decay ends with the steps of the run, which by epochs is over where it has hardly begun."""
    (last, falls), peak = end_of(schedule, limits), max(schedule.course)
    reached = schedule.course.index(peak) < schedule.calls and schedule.rates[-1] > limits.half * peak > 0
    return falls and reached and is_of_steps(last, schedule, limits) and last > limits.many * schedule.calls


def is_warm_up_of_steps(schedule: Rehearsal, limits: Limits) -> bool:
    """Whether the run ends in a warm-up that is long only in epochs."""
    (last, decays), rates, peak = end_of(schedule, limits), schedule.rates, max(schedule.course)
    if peak <= 0 or not rates[-1] == max(rates) > rates[-2:][0]:
        return False
    if decays and is_of_steps(last, schedule, limits) and schedule.course.index(peak) >= schedule.calls:
        return True
    if schedule.course.index(peak) <= limits.many * schedule.uncut:  # of a longer run, which was cut for a try
        return False
    # What is rehearsed ends with the steps of the run, or later than any warm-up does.
    return max(rates) <= limits.half * peak and near(last, len(schedule.course) - 1, limits)


def cosine(length: int, **run: int) -> object:
    return scheduled(partial(CosineAnnealingLR, T_max=length), "epoch", **run)


def falling(*points: tuple[int, float]) -> object:
    return along((0, 1.0), *points, interval="epoch")


PROBE = Probe(
    question="Are the lengths of an lr_scheduler with interval='epoch' given in epochs, and not in steps?",
    why="it looks written for steps, and it is stepped by epochs",
    fix=Fix("interval=step where configure_optimizers returns the schedule", overrides=("scheduler.interval=step",)),
    detect=detect,
    thresholds={
        "many": replace(MANY, faulty=cosine(20, batch_size=8), healthy=cosine(15, batch_size=12)),
        "max_split": replace(SPLIT, faulty=cosine(35), healthy=cosine(28)),
        "min_tail": Threshold(
            0.05,
            "of its peak, below which a rate is as good as none: a cosine comes to it after 0.86 of its length, within "
            "max_split of its end",
            factor=2.0,
            faulty=falling((20, 0.07), (36, 0.07), (37, 0.0)),
            healthy=falling((20, 0.04), (36, 0.04), (37, 0.0)),
        ),
        "half": Threshold(
            0.5,
            "of its peak: a decay that the run has come through leaves less, and a warm-up that it has come through "
            "more",
            factor=1.5,
            faulty=falling((5, 0.6), (38, 0.0)),
            healthy=falling((5, 0.4), (38, 0.0)),
        ),
    },
    faulty=cosine(40),
    healthy=cosine(5),
)
