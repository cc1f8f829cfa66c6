from collections.abc import Iterator
from typing import Any

import torch

from training_checklist.evidence.labels import LabelFit, agreement, fits, is_less
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(fit: LabelFit, limits: Any) -> Iterator[Hit]:
    if not fits(fit.within):
        raise CannotJudge("class centres tell no classes of the training set")
    own = agreement(fit.within)
    # Neither by the training set's centres nor by their own: inputs of another kind would fit their own.
    lost = not fits(fit.across) and is_less(fit.across, own) and not fits(fit.held) and is_less(fit.held, own)
    if lost and not fit.moved():
        yield Hit(
            f"labels of {fit.name} do not fit its inputs: {agreement(fit.across):.0%} of them lie nearest to the "
            f"centre of their class in the training set and {agreement(fit.held):.0%} to that in their own split; "
            f"{own:.0%} do within the training set",
            fit.place,
        )


RULE = Rule(
    id="data/held-out-labels-unrelated",
    item="limit_batches",
    question="Do held-out labels belong to their inputs as training labels do?",
    why="labels of that split are shuffled, or read from other samples: its metrics say nothing",
    severity=FAILED,
    evidence=LabelFit,
    judge=judge,
    fix=Fix("look at some of its samples with their labels"),
    faulty=lambda: LabelFit("val", [0, 1, 2], 20 * torch.eye(3), torch.full((3, 3), 7.0), torch.full((3, 3), 7.0)),
    healthy=lambda: LabelFit("val", [0, 1, 2], 20 * torch.eye(3), 5 * torch.eye(3) + 5, 20 * torch.eye(3)),
)
