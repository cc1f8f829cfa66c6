from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Scale, SplitScales
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(scales: SplitScales, limits: Any) -> Iterator[Hit]:
    train, other = scales.train, scales.other
    if scales.differ(limits.max_shift, limits.max_ratio):
        yield Hit(
            f"inputs of {train.name} have mean {train.mean:.2f} and std {train.std:.2f}, those of {other.name} "
            f"{other.mean:.2f} and {other.std:.2f}",
            scales.place,
        )


RULE = Rule(
    id="data/splits-scaled-differently",
    item="limit_batches",
    question="Do inputs have the same scale in all splits?",
    why="the network is trained on one scale and validated on another: validation looks worse than it is",
    severity=FAILED,
    evidence=SplitScales,
    judge=judge,
    fix=Fix("let all splits go through the same normalisation"),
    faulty=lambda: SplitScales(Scale("train", 0.0, 1.0, 0.01), Scale("val", 0.13, 0.31, 0.01)),
    healthy=lambda: SplitScales(  # prices that rise
        Scale("train", 0.0, 1.0, 0.01, [-1.4, -0.5, 0.4, 1.5], [0.4, 0.4, 0.5, 0.5]),
        Scale("val", 2.0, 0.5, 0.01, [1.8, 2.2], [0.4, 0.5]),
    ),
    thresholds={
        "max_shift": Threshold(
            0.5,
            "standard deviations between the means, beyond drift and error; crops, erasing and noise moved digits, "
            "tables and spectrograms by at most 0.3",
        ),
        "max_ratio": Threshold(
            1.6, "between standard deviations; mixing two samples half and half lowers it by the square root of 2"
        ),
    },
)
