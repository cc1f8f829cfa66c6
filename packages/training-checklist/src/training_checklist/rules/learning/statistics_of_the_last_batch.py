from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Norm
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(norm: Norm, limits: Any) -> Iterator[Hit]:
    if norm.tracks and norm.momentum is not None and norm.momentum > limits.max_momentum:
        yield Hit(
            f"{norm.momentum:.0%} of the running statistics of {norm.path} are those of the last batch alone: "
            f"momentum={norm.momentum:g}",
            Place(module=norm.path),
        )


RULE = Rule(
    id="learning/statistics-of-the-last-batch",
    item="learning",
    question="Is BatchNorm's momentum small enough to average its running statistics over many batches?",
    why="torch's momentum is the weight of the new batch, other libraries' that of the old ones: validation normalises "
    "by whatever came last",
    severity=FAILED,
    evidence=Norm,
    judge=judge,
    fix=Fix("momentum=0.1, which is torch's default: 1 less the momentum of Keras"),
    faulty=lambda: Norm("net.norm", momentum=0.99, tracks=True, is_new=True, batches=50),
    healthy=lambda: Norm("net.norm", momentum=0.1, tracks=True, is_new=True, batches=50),
    thresholds={"max_momentum": Threshold(0.5, "share; beyond it one batch counts more than all others together")},
)
