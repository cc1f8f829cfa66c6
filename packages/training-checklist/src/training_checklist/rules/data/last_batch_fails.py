from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import ShortBatch
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(batch: ShortBatch, limits: Any) -> Iterator[Hit]:
    if batch.error is not None:
        yield Hit(
            f"the last batch of an epoch has {batch.samples} samples, not {batch.usual}, and the step fails: "
            f"{batch.error}",
            batch.place,
        )


RULE = Rule(
    id="data/last-batch-fails",
    item="limit_batches",
    question="Does a step work with as few samples as the last batch of an epoch has?",
    why="training ends with an exception at the end of its first epoch; the same step works with a whole batch",
    severity=FAILED,
    evidence=ShortBatch,
    judge=judge,
    fix=Fix("take the number of samples from the input (x.shape[0], flatten(1)), or drop_last=True"),
    faulty=lambda: ShortBatch(4, 16, "RuntimeError: shape '[16, -1]' is invalid for input of size 40"),
    healthy=lambda: ShortBatch(4, 16, None),
)
