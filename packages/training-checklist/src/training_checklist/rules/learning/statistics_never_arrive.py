from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Norm
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold

DEFAULT = 0.1  # torch's momentum, which nobody has chosen


def judge(norm: Norm, limits: Any) -> Iterator[Hit]:
    if not norm.tracks or not norm.is_new or norm.momentum is None or norm.momentum >= DEFAULT:
        return
    left = (1 - norm.momentum) ** norm.batches
    if left > limits.max_initial:
        yield Hit(
            f"after all {norm.batches:g} batches {left:.0%} of the running statistics of {norm.path} are still what "
            f"they began with: momentum={norm.momentum:g}",
            Place(module=norm.path),
        )


RULE = Rule(
    id="learning/statistics-never-arrive",
    item="learning",
    question="Is BatchNorm's momentum large enough for its running statistics to become those of the data?",
    why="validation normalises by them, and sees other inputs than training does",
    severity=FAILED,
    evidence=Norm,
    judge=judge,
    fix=Fix("momentum=0.1, which is torch's default"),
    faulty=lambda: Norm("net.norm", momentum=1e-4, tracks=True, is_new=True, batches=50),
    healthy=lambda: Norm("net.norm", momentum=0.01, tracks=True, is_new=True, batches=5000),
    thresholds={
        "max_initial": Threshold(0.5, "share; beyond it validation normalises more by no data at all than by any data")
    },
)
