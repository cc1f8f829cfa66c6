from typing import Any

from training_checklist.instruments import Schedules, by_factor, limits_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

TOLD_BY = "schedule/at-its-floor", "schedule/counted-in-epochs"


def detect(schedules: Schedules, limits: Limits) -> Hits:
    floor, counted = map(limits_of, TOLD_BY)
    for each in schedules.rehearsals:
        peak = max(each.rates)
        several = each.interval == "step" and each.epochs >= 2
        by_epochs = several and max(each.rates[int(each.per_epoch) :]) < counted.min_rate * peak
        if each.error or by_epochs or each.floor(floor) is not None:
            continue
        first = 1 + max(call for call, rate in enumerate(each.rates) if rate >= limits.max_rate * peak)
        used = len(each.rates) - (each.calls == int(each.calls))  # no step follows the call at the end of the run
        if first <= used // 2:
            yield Hit(
                f"the learning rate falls from {peak:.3g} to less than {limits.max_rate:g} of that in {first} of "
                f"{each.calls:.0f} calls, and to {each.rates[-1]:.1e} at the end: the run has {each.run}",
                each.place,
            )


def exponential(half: float, **options: Any) -> object:
    """Fall to this share of the first rate in 20 calls: half of what the run has, where no option says otherwise."""
    return by_factor(lambda call: half ** (call / 20), **options)


PROBE = Probe(
    question="Is the learning rate more than next to nothing in the second half of the run?",
    why="steps that small change no weight that matters, so that half of the run or more is for nothing",
    severity=WARNING,
    fix=Fix("a decay made for the run's length, or one that is stepped once an epoch where it is now once a batch"),
    detect=detect,
    thresholds={
        "max_rate": Threshold(
            1e-3,
            "of its peak: three milestones of MultiStepLR with the default gamma, with which training ends as a rule",
            factor=3.0,
            faulty=exponential(5e-4),
            healthy=exponential(2e-3),
        )
    },
    faulty=exponential(2e-4),
    healthy=exponential(0.1),
    also_healthy=(
        exponential(2e-4, trainer={"max_steps": 3}),  # within an epoch
        by_factor(lambda epoch: 1.0 - epoch, interval="epoch", trainer={"max_epochs": 1}),
    ),
)
