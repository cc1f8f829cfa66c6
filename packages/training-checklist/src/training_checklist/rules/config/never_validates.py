from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import ValidationEpochs
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(validation: ValidationEpochs, limits: Any) -> Iterator[Hit]:
    if validation.every > validation.epochs:
        yield Hit(
            f"{validation.key}={validation.every}, and the run has {validation.epochs} epochs: it is never validated",
            validation.place,
            fix=Fix(overrides=(f"{validation.key}=1",)),
        )


RULE = Rule(
    id="config/never-validates",
    item="config",
    question="Is check_val_every_n_epoch at most max_epochs, so that validation runs at all?",
    why="nothing tells a better epoch from a worse one: no checkpoint is the best, and no callback that waits for a "
    "metric has one",
    severity=FAILED,
    evidence=ValidationEpochs,
    judge=judge,
    fix=Fix("check_val_every_n_epoch=1"),
    faulty=lambda: ValidationEpochs("trainer.check_val_every_n_epoch", 100, 6),
    healthy=lambda: ValidationEpochs("trainer.check_val_every_n_epoch", 2, 6),
)
