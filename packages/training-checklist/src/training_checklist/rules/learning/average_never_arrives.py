from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.averages import Average
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(average: Average, limits: Any) -> Iterator[Hit]:
    if not average.is_steady(limits.same_share):
        return
    share = sum(average.shares) / len(average.shares)
    left = (1 - share) ** average.times
    if left > limits.max_beginning:
        yield Hit(
            f"after all {average.times:g} updates {left:.0%} of {average.name} are still what it began with: each goes "
            f"{share:.2g} of the way to the weights",
            average.place,
        )


RULE = Rule(
    id="learning/average-never-arrives",
    item="learning",
    question="Is the decay of the moving average of the weights small enough for the length of the training?",
    why="what is evaluated with these weights is rather the untrained network than the trained one",
    severity=FAILED,
    evidence=Average,
    judge=judge,
    fix=Fix("a smaller decay: 1 - 10 / steps of the training forgets all but 0.005 % of the beginning"),
    faulty=lambda: Average("EMA.shadow['net.weight']", [1e-4, 1e-4, 1e-4], 2000),
    healthy=lambda: Average("EMA.shadow['net.weight']", [1e-3, 1e-3, 1e-3], 20_000),
    thresholds={
        "max_beginning": Threshold(
            2 / 3, "share: the beginning counts twice as much as what was learnt; short runs keep a default of 0.999"
        ),
        "same_share": Threshold(
            1.05, "factor between the largest and the least share; a decay that is still rising changes by more a step"
        ),
    },
)
