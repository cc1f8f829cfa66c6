from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.columns import FittedTo
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(fitted: FittedTo, limits: Any) -> Iterator[Hit]:
    if fitted.standard["other"] > fitted.columns / 2:
        yield Hit(
            f"{fitted.standard['other']} of {fitted.columns} columns have mean 0 and deviation 1 over the samples of "
            f"{fitted.other} alone",
            fitted.place,
        )


RULE = Rule(
    id="data/scaled-by-itself",
    item="limit_batches",
    question="Are held-out samples scaled by the training set, and not by themselves?",
    why="the same number means something else in each split, and a single sample could not be scaled at all",
    severity=FAILED,
    evidence=FittedTo,
    judge=judge,
    fix=Fix("keep mean and deviation of the training set, and scale every split by them"),
    faulty=lambda: FittedTo(
        "val_dataloader", {"train": 6, "other": 6, "both": 6}, {"train": 0, "other": 0, "both": 0}, 6
    ),
    healthy=lambda: FittedTo(
        "val_dataloader", {"train": 6, "other": 0, "both": 0}, {"train": 0, "other": 0, "both": 0}, 6
    ),
)
