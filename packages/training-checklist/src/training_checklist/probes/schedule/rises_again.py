from functools import partial
from math import cos, pi

from torch.optim import Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

from training_checklist.instruments import Schedules, by_factor, limits_of, near, scheduled
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

ROUNDING = 1e-6  # relative: a rate that is computed from the one before it drifts by as much in some 1000 calls


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        if each.error or not each.is_cosine:
            continue
        if each.interval == "step" and near(each.made_for, each.epochs, limits_of("schedule/counted-in-epochs")):
            continue  # which that says
        peak = max(each.rates)
        top = next(call for call, rate in enumerate(each.rates) if peak - rate <= ROUNDING * peak)
        lowest = min(each.rates[top:])
        bottom = next(call for call, rate in enumerate(each.rates) if call >= top and rate - lowest <= ROUNDING * peak)
        again = max(each.rates[bottom:])
        if again - lowest > max(limits.risen * (peak - lowest), ROUNDING * peak):
            yield Hit(
                f"from call {bottom} of {each.calls:.0f} on the rate rises again, from {lowest:.3g} to "
                f"{again:.3g} of {peak:.3g}: the run has {each.run}",
                each.place,
            )


def cosine(length: int) -> object:
    return scheduled(partial(CosineAnnealingLR, T_max=length))


def by_hand(length: int, low: float = 0.0) -> object:
    """Follow a cosine that a function makes, after a warm-up of a call."""
    half = (1 - low) / 2
    return by_factor(lambda call: low + half * (1 + cos(pi * (call - 1) / length)) if call else 0.5)


def warmed_up(optimizer: Optimizer) -> SequentialLR:
    parts = [LinearLR(optimizer, 0.01, total_iters=4), CosineAnnealingLR(optimizer, 8)]
    return SequentialLR(optimizer, parts, [4])


PROBE = Probe(
    question="Does a learning rate that follows a cosine come down once, and not rise again before the run ends?",
    why="it is made for half a period: a run that is longer goes on at high rates, and may end at one",
    severity=WARNING,
    may_be_wrong="cycles may be meant, which CosineAnnealingWarmRestarts says plainly",
    fix=Fix(
        "make it for the whole run: T_max=trainer.max_epochs with interval=epoch, or "
        "trainer.estimated_stepping_batches with interval=step"
    ),
    detect=detect,
    thresholds={
        "risen": Threshold(
            0.5,
            "of the way to its peak: a run that was made half as long again for a try comes to it",
            factor=1.5,
        )
    },
    faulty=cosine(25),
    also_faulty=(scheduled(warmed_up), by_hand(25)),
    healthy=cosine(28),
    also_healthy=(
        cosine(10_000),
        by_hand(28),
        by_hand(25, 0.3),
        by_factor(lambda call: (1 + cos(pi * (call % 20) / 20)) / 2),  # begins anew, as is meant
    ),
)
