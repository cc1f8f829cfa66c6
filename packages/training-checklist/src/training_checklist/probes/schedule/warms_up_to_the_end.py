from dataclasses import replace
from itertools import pairwise

from training_checklist.instruments import SMOOTH, Schedules, along
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        rates = each.rates
        rises = all(later >= earlier for earlier, later in pairwise(rates)) and rates[-1] > rates[-2:][0]
        is_smooth = not each.error and each.interval == "step" and len(rates) > limits.min_smooth
        if rises and is_smooth and rates[-1] >= limits.min_rise * rates[0]:
            if each.cut > 1:
                raise CannotJudge("the command line ends the run before the project's files would")
            what = f"the learning rate rises from {rates[0]:.3g} to {rates[-1]:.3g} to the very end: the run has"
            yield Hit(f"{what} {each.run}", each.place)


PROBE = Probe(
    question="Does the warm-up of the learning rate end before the run does?",
    why="the run never gets to the rate that was meant, nor to the decay after it: the schedule is made for more steps",
    may_be_wrong="a run that is the first part of a longer one may be all warm-up",
    fix=Fix("count what it is stepped by: trainer.estimated_stepping_batches with interval=step"),
    detect=detect,
    thresholds={
        "min_smooth": replace(
            SMOOTH,
            faulty=along((0, 0.01), (100, 1), epochs=1),
            healthy=along((0, 0.01), (100, 1), epochs=1, batch_size=8),
        ),
        "min_rise": Threshold(
            2.0,
            "times its first rate: a warm-up begins at a tenth or less, and a rate that doubles at most is no warm-up",
            factor=1.5,
            faulty=along((0, 0.1), (40, 0.25)),
            healthy=along((0, 0.1), (40, 0.16)),
        ),
    },
    faulty=along((0, 0.1), (100, 1)),
    healthy=along((0, 0.1), (30, 1)),
)
