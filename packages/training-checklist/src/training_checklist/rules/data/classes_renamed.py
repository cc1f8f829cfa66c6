from collections.abc import Iterator
from typing import Any

import torch

from training_checklist.evidence.labels import LabelFit, agreement
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(fit: LabelFit, limits: Any) -> Iterator[Hit]:
    moved = fit.moved()
    if moved:
        shown = ", ".join(f"{label} looks like {seen}" for label, seen in list(moved.items())[:4])
        yield Hit(
            f"labels of {fit.name} mean other classes than in training: {shown}{', ...' if len(moved) > 4 else ''} "
            f"({len(moved)} of {len(fit.labels)} classes); by the class centres of the training inputs "
            f"{agreement(fit.across):.0%} of its labels fit, {agreement(fit.within):.0%} within the training set",
            fit.place,
        )
    elif not (2 * fit.within.diagonal() > fit.within.sum(1)).any():
        raise CannotJudge("class centres tell no class of the training set")


RULE = Rule(
    id="data/classes-renamed",
    item="limit_batches",
    question="Do labels mean the same in all splits?",
    why="metrics there are wrong however good the network is",
    severity=FAILED,
    evidence=LabelFit,
    judge=judge,
    fix=Fix("use one mapping from names to labels in all splits, and look for an offset in how labels are read"),
    faulty=lambda: LabelFit("val", [0, 1, 2], *(20 * torch.eye(3).roll(move, 1) for move in (0, 1, 0))),
    healthy=lambda: LabelFit("val", [0, 1, 2], *(20 * torch.eye(3) + 4 for _ in range(3))),
)
