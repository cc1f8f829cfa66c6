from dataclasses import replace
from itertools import pairwise, takewhile

from training_checklist.instruments import MANY, ROUNDED, Schedules, by_factor
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        rates = each.rates
        rises = list(takewhile(lambda rise: rise > 0, (later - rate for rate, later in pairwise(rates))))
        steady, leap = rises[:-1], len(rises)
        if len(steady) < limits.min_line or max(steady) - min(steady) > limits.max_rounding * max(steady):
            continue
        if rises[-1] > limits.many * max(steady):
            what = (
                f"the learning rate rises in even steps from {rates[0]:.3g} to {rates[leap - 1]:.3g}, and call {leap}"
            )
            yield Hit(f"{what} makes it {rates[leap]:.3g}", each.place)


def factors(*given: float) -> object:
    return by_factor(lambda call: given[min(call, len(given) - 1)])


PROBE = Probe(
    question="Does the warm-up end at the learning rate with which the lr_scheduler goes on?",
    why="the leap is what the warm-up was to spare the network: the two parts are made for different rates",
    severity=WARNING,
    fix=Fix("let the warm-up end at the rate, or factor, with which the part after it begins"),
    detect=detect,
    thresholds={
        "many": replace(
            MANY, faulty=factors(0.1, 0.2, 0.3, 0.4, 0.8, 0.5), healthy=factors(0.1, 0.2, 0.3, 0.4, 0.65, 0.5)
        ),
        "max_rounding": replace(
            ROUNDED, faulty=factors(0.1, 0.2, 0.3, 0.397, 1, 0.5), healthy=factors(0.1, 0.2, 0.3, 0.393, 1, 0.5)
        ),
        "min_line": Threshold(
            3,
            "equal rises in a row that are a line: two of them are what any two epochs make at times",
            factor=2.0,
            faulty=factors(0.1, 0.2, 0.3, 0.4, 1, 0.5),
            healthy=factors(0.1, 0.2, 0.3, 1, 0.5),
        ),
    },
    faulty=factors(0.1, 0.2, 0.3, 0.4, 1, 0.5),
    healthy=factors(0.1, 0.2, 0.3, 0.4, 0.5, 0.4),
)
