from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import ValidationInterval
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(interval: ValidationInterval, limits: Any) -> Iterator[Hit]:
    if isinstance(interval.value, int) and interval.value == 1:
        yield Hit(
            f"{interval.key}=1 validates after every single training batch",
            interval.place,
            fix=Fix("leave it as it is if that is meant", overrides=(f"{interval.key}=1.0",)),
        )


RULE = Rule(
    id="config/validates-every-batch",
    item="config",
    question="Is val_check_interval a share (1.0), and not the integer 1, which validates after every batch?",
    why="the whole number 1 is one batch to Lightning, and 1.0 an epoch: nearly all time goes into validation",
    severity=WARNING,
    evidence=ValidationInterval,
    judge=judge,
    fix=Fix("1.0 for once an epoch"),
    faulty=lambda: ValidationInterval("trainer.val_check_interval", 1),
    healthy=lambda: ValidationInterval("trainer.val_check_interval", 1.0),
)
