from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from training_checklist.evidence.schedules import MUCH, ROUNDED, Rehearsal, near
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Rehearsal, limits: Any) -> Iterator[Hit]:
    if schedule.error or schedule.interval != "epoch" or schedule.calls < 1:
        return
    whole = schedule.made_for
    if whole > MUCH * schedule.calls and near(whole, schedule.steps):
        what = f"it is made for {whole} calls and gets {schedule.calls:.0f}: the run has {schedule.run}"
        yield Hit(f"{what}; the last rate is {schedule.rates[-1]:.3g}", schedule.place)
    elif decays_over_steps(schedule):
        yield Hit(
            f"it falls over some {schedule.steps:.0f} calls and gets {schedule.calls:.0f}: the run has {schedule.run}; "
            f"the last rate is {schedule.rates[-1]:.3g} of {max(schedule.course):.3g}",
            schedule.place,
        )
    elif is_warm_up_of_steps(schedule):
        peak = schedule.course.index(max(schedule.course))
        yield Hit(
            f"it rises until call {peak} and gets {schedule.calls:.0f} in a run of {schedule.run}; of its "
            f"{max(schedule.course):.3g} the rate reaches {max(schedule.rates):.3g}",
            schedule.place,
        )


def decays_over_steps(schedule: Rehearsal) -> bool:
    """Whether a decay ends with the steps of the run, which by epochs is over where it has hardly begun."""
    course, peak = schedule.course, max(schedule.course)
    # A cosine comes to a twentieth after 0.86 of its length, and its tail is flat.
    last = max((call for call, rate in enumerate(course) if rate > peak / 20), default=0)
    falls = last < len(course) - 1 and all(b <= a for a, b in pairwise(course[course.index(peak) :]))
    reached = course.index(peak) < schedule.calls and schedule.rates[-1] > peak / 2 > 0
    return falls and reached and near(last, schedule.steps) and last > MUCH * schedule.calls


def is_warm_up_of_steps(schedule: Rehearsal) -> bool:
    """Whether the run ends in a warm-up that is long only in epochs, before a decay that ends with its steps."""
    course, peak = schedule.course, max(schedule.course)
    # A run that has left the peak behind is in no warm-up: a cosine by epochs comes back to it after two lengths.
    rises = schedule.rates[-1] == max(schedule.rates) > schedule.rates[-2:][0]
    if peak <= 0 or (max(schedule.rates) > (1 - ROUNDED) * peak and not rises):
        return False
    above = [call for call, rate in enumerate(course) if rate > peak / 10]  # the tail of a cosine or a power is flat
    top = course.index(peak)
    decays = above[-1] < len(course) - 1 and all(later <= earlier for earlier, later in pairwise(course[top:]))
    if decays and near(above[-1], schedule.steps) and top >= schedule.calls:
        return True
    if max(schedule.rates) > peak / 2:
        return False
    # Ten times the run: no warm-up is as long, and a schedule has no end where it stays at its peak.
    return near(above[-1], schedule.steps) or (schedule.calls >= MUCH and top > 10 * schedule.calls)


RULE = Rule(
    id="schedule/counted-in-steps",
    item="learning",
    question="Are the lengths of an lr_scheduler with interval='epoch' given in epochs, and not in steps?",
    why="it looks written for steps, and it is stepped by epochs",
    severity=FAILED,
    evidence=Rehearsal,
    judge=judge,
    fix=Fix("interval=step where configure_optimizers returns the schedule", overrides=("scheduler.interval=step",)),
    faulty=lambda: Rehearsal("CosineAnnealingLR(T_max=50)", "epoch", 1, 10, 50, 5, 1, [0.1] * 51, 50),
    healthy=lambda: Rehearsal("CosineAnnealingLR(T_max=5)", "epoch", 1, 10, 50, 5, 1, [0.1] * 51, 5),
)
