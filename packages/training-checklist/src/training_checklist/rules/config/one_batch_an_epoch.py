from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import BatchLimit
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(limit: BatchLimit, limits: Any) -> Iterator[Hit]:
    if limit.key and limit.epochs != 1:
        yield Hit(
            f"{limit.key}=1 is one batch in each of {'many' if limit.epochs is None else limit.epochs} epochs",
            limit.place,
            fix=Fix("leave it as it is if one batch is meant", overrides=(f"{limit.key}=1.0",)),
        )


RULE = Rule(
    id="config/one-batch-an-epoch",
    item="config",
    question="Is limit_train_batches a share (1.0), and not the integer 1, which is a single batch?",
    why="the whole number 1 is one batch to Lightning, and 1.0 all of them",
    severity=WARNING,
    evidence=BatchLimit,
    judge=judge,
    fix=Fix("1.0 for all batches"),
    faulty=lambda: BatchLimit("trainer.limit_train_batches", 10),
    healthy=lambda: BatchLimit("trainer.limit_train_batches", 1),
)
