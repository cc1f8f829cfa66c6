from collections.abc import Iterator
from typing import Any

import torch

from training_checklist.evidence.labels import TrainingLabels, agreement, fits, is_less
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(fit: TrainingLabels, limits: Any) -> Iterator[Hit]:
    if not fits(fit.held):
        raise CannotJudge("class centres tell no classes of the held-out split")
    own = agreement(fit.held)
    # A split whose samples are of another kind would fit its own centres.
    if not fits(fit.within) and is_less(fit.within, own) and not fits(fit.across) and is_less(fit.across, own):
        yield Hit(
            f"training labels have nothing to do with training inputs: {agreement(fit.within):.0%} lie nearest to the "
            f"centre of their class, {own:.0%} do in {fit.name}",
            fit.place.beside(loader="train_dataloader", note=""),
        )


RULE = Rule(
    id="data/training-labels-unrelated",
    item="limit_batches",
    question="Do training labels belong to their inputs as held-out labels do?",
    why="they can be learned by heart and no better",
    severity=FAILED,
    evidence=TrainingLabels,
    judge=judge,
    fix=Fix("look for inputs and labels that were shuffled, sorted or filtered apart from one another"),
    faulty=lambda: TrainingLabels(
        "val", [0, 1, 2], torch.full((3, 3), 7.0), torch.full((3, 3), 7.0), 20 * torch.eye(3)
    ),
    healthy=lambda: TrainingLabels(
        "val", [0, 1, 2], torch.full((3, 3), 7.0), 40 * torch.eye(3) + 20, 20 * torch.eye(3)
    ),
    symptom=True,
)
