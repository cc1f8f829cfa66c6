from functools import partial

from torch.optim.lr_scheduler import CosineAnnealingLR

from training_checklist.instruments import Schedules, limits_of, near, scheduled
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        if each.error or not each.schedule.startswith("CosineAnnealingLR("):
            continue
        if each.interval == "step" and near(each.made_for, each.epochs, limits_of("schedule/counted-in-epochs")):
            continue  # which that says
        rates, peak = each.rates, max(each.rates)
        lowest = min(rates)
        again = max(rates[rates.index(lowest) :])
        if again - lowest > limits.risen * (peak - lowest):
            yield Hit(
                f"from call {rates.index(lowest)} of {each.calls:.0f} on the rate rises again, from {lowest:.3g} to "
                f"{again:.3g} of {peak:.3g}: the run has {each.run}",
                each.place,
            )


def cosine(length: int) -> object:
    return scheduled(partial(CosineAnnealingLR, T_max=length))


PROBE = Probe(
    question="Does a CosineAnnealingLR come down once, and not rise again before the run ends?",
    why="its T_max is half a period: a run that is longer goes on at high rates, and may end at one",
    severity=WARNING,
    may_be_wrong="cycles may be meant, which CosineAnnealingWarmRestarts says plainly",
    fix=Fix(
        "T_max=trainer.max_epochs with interval=epoch, or T_max=trainer.estimated_stepping_batches with interval=step"
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
    healthy=cosine(28),
)
