import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Scale, SplitTargets
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(targets: SplitTargets, limits: Any) -> Iterator[Hit]:
    train, other = targets.train, targets.other
    if targets.ordered and not targets.low <= other.mean <= targets.high:
        yield Hit(
            f"targets of {train.name} rise from one sample to the next, from {targets.low:.3g} to {targets.high:.3g}, "
            f"and those of {other.name} lie beyond, with mean {other.mean:.3g}",
            targets.place,
            "samples were sorted by their target before they were split: what is validated was never learned",
            Fix("split by a permutation of the samples"),
        )
    elif targets.scales.differ(limits.max_target_shift, limits.max_target_ratio):
        yield Hit(
            f"targets of {train.name} have mean {train.mean:.3g} and std {train.std:.3g}, those of {other.name} "
            f"{other.mean:.3g} and {other.std:.3g}",
            targets.place,
            # A deviation alone may be a few rare large targets, which one split has and a small one has not.
            severity=None if targets.scales.differ(limits.max_target_shift, math.inf) else WARNING,
        )


RULE = Rule(
    id="data/targets-unlike-training",
    item="limit_batches",
    question="Do the targets of a regression have the same scale and range in all splits?",
    why="the network learns to answer on one scale and is held against another",
    severity=FAILED,
    evidence=SplitTargets,
    judge=judge,
    fix=Fix("let the targets of all splits go through the same transform, with the training set's statistics"),
    faulty=lambda: SplitTargets(Scale("train", 0.0, 1.0, 0.01), Scale("val", 45.0, 15.0, 0.5), -3.0, 3.0),
    healthy=lambda: SplitTargets(  # prices that rise, but not from one sample to the next
        Scale("train", 0.0, 1.0, 0.01, [-1.4, -0.5, 0.4, 1.5], [0.4, 0.4, 0.5, 0.5]),
        Scale("val", 2.0, 0.5, 0.01, [1.8, 2.2], [0.4, 0.5]),
        -2.1,
        1.9,
    ),
    thresholds={
        "max_target_shift": Threshold(
            2.0,
            "deviations between the means, beyond drift and error: beyond what most of training has seen. Of 15,000 "
            "random splits of 60 and 512 samples, normal, lognormal, Student's t and Pareto, none is so far apart",
        ),
        "max_target_ratio": Threshold(
            4.0,
            "between standard deviations, and between consecutive parts of a split; only a warning: none of these "
            "splits has it, but 145 of 3,000 where one target in a hundred is 1 and the rest are close to 0",
        ),
    },
)
