from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.averages import Average
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(average: Average, limits: Any) -> Iterator[Hit]:
    share = sum(average.shares) / max(len(average.shares), 1)
    if average.is_steady(limits.one_share) and limits.max_last < share < 1:
        yield Hit(
            f"{average.name} goes {share:.2g} of the way to the weights each time: it is what they were in the last "
            "step, and averages nothing",
            average.place,
        )


RULE = Rule(
    id="learning/average-of-the-last-step",
    item="learning",
    question="Does the moving average of the weights average over several steps, and not only over the last?",
    why="decay and 1 - decay may have changed places",
    severity=WARNING,
    evidence=Average,
    judge=judge,
    fix=Fix("average = decay * average + (1 - decay) * weight, with a decay such as 0.999"),
    faulty=lambda: Average("EMA.shadow['net.weight']", [0.999, 0.999, 0.999], 2000),
    healthy=lambda: Average("EMA.shadow['net.weight']", [0.9, 0.82, 0.75], 2000),
    thresholds={
        "max_last": Threshold(0.5, "share; beyond it the last step counts more than all others together"),
        "one_share": Threshold(1.01, "factor between the largest and the least share: roundings of float32"),
    },
)
