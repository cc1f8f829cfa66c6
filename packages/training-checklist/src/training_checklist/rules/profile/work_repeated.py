from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.step_times import RepeatedWork
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(work: RepeatedWork, limits: Any) -> Iterator[Hit]:
    lost = work.share * work.waiting
    if lost > limits.max_repeated:
        yield Hit(
            f"{work.function} makes the same for every sample, which takes {work.share:.0%} of the time of loading, "
            f"and so {lost:.0%} of a step",
            work.place,
        )


RULE = Rule(
    id="profile/work-repeated",
    item="profile",
    question="Is what all samples share made once?",
    why="a table, an archive or a filter bank that is the same for each sample can be kept where the dataset is made",
    severity=WARNING,
    evidence=RepeatedWork,
    judge=judge,
    fix=Fix("make it once, in __init__ of the dataset, and keep it there"),
    faulty=lambda: RepeatedWork("Clips.filters", 0.8, 0.6),
    healthy=lambda: RepeatedWork("Clips.filters", 0.8, 0.05),
    thresholds={
        "max_repeated": Threshold(
            0.1, "share of a step: less is lost in the differences between two runs of the same training"
        )
    },
)
