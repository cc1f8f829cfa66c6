from collections.abc import Iterator
from typing import Any

import torch

from training_checklist.evidence.labels import LabelFit, agreement, fits, is_less
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(fit: LabelFit, limits: Any) -> Iterator[Hit]:
    if not fits(fit.within) or not fits(fit.held):
        raise CannotJudge("class centres do not tell the classes of both splits")
    least = limits.min_alike * min(agreement(fit.within), agreement(fit.held))
    if is_less(fit.across, least) and not fit.moved():
        yield Hit(
            f"inputs of {fit.name} look unlike those of training: {agreement(fit.across):.0%} of them lie nearest to "
            f"the training set's centre of their class, {agreement(fit.within):.0%} of the training set do, and "
            f"{agreement(fit.held):.0%} lie nearest to that of their own split",
            fit.place,
        )


RULE = Rule(
    id="data/inputs-look-unlike",
    item="limit_batches",
    question="Do inputs of all splits look alike?",
    why="the network is validated on another kind of input than it is trained on: compare height and width, "
    "orientation, colours and crops",
    severity=WARNING,
    evidence=LabelFit,
    judge=judge,
    fix=Fix("let both splits go through the same transforms, but for random ones"),
    faulty=lambda: LabelFit("val", [0, 1, 2], *(50 * torch.eye(3) + extra for extra in (1, 90, 1))),
    healthy=lambda: LabelFit("val", [0, 1, 2], *(50 * torch.eye(3) + extra for extra in (1, 15, 1))),
    thresholds={
        "min_alike": Threshold(
            0.7,
            "of the lesser share that fits within a split; over digits, tables, spectrograms and recordings of several "
            "speakers, augmented in six ways and cut ten times, it was never below 0.92",
        )
    },
)
