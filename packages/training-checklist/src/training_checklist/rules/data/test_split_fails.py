from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import SplitFails
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(split: SplitFails, limits: Any) -> Iterator[Hit]:
    if split.error:
        yield Hit(f"the test split cannot be loaded: {split.error}", split.place)


RULE = Rule(
    id="data/test-split-fails",
    item="limit_batches",
    question="Can the test split be loaded?",
    why="testing after training will end in the same error",
    severity=WARNING,
    evidence=SplitFails,
    judge=judge,
    fix=Fix(items=("fast_dev_run",)),
    faulty=lambda: SplitFails("FileNotFoundError: data/test"),
    healthy=lambda: SplitFails(""),
)
