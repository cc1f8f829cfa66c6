from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import SavingInterval
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(saving: SavingInterval, limits: Any) -> Iterator[Hit]:
    if saving.every > saving.epochs:
        yield Hit(
            f"{saving.key}={saving.every}, and the run has {saving.epochs} epochs: this ModelCheckpoint saves nothing",
            saving.place,
            fix=Fix(overrides=(f"{saving.key}=1",)),
        )


RULE = Rule(
    id="config/never-saves",
    item="config",
    question="Is every_n_epochs of each ModelCheckpoint at most max_epochs, so that it saves at all?",
    why="what was trained is lost, and loading the best checkpoint afterwards fails",
    severity=FAILED,
    evidence=SavingInterval,
    judge=judge,
    fix=Fix("every_n_epochs=1"),
    faulty=lambda: SavingInterval("callbacks.checkpoint.every_n_epochs", 100, 6),
    healthy=lambda: SavingInterval("callbacks.checkpoint.every_n_epochs", 2, 6),
)
