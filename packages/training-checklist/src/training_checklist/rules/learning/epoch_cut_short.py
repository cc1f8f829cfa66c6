from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import EpochLength
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(length: EpochLength, limits: Any) -> Iterator[Hit]:
    short = [(epoch, done) for epoch, done in enumerate(length.done) if done < length.asked]
    if short and not length.ended:
        epoch, done = short[0]
        yield Hit(
            f"epoch {epoch} ends after {done} of {length.asked:g} batches, and nothing has asked for it", length.hooks
        )


RULE = Rule(
    id="learning/epoch-cut-short",
    item="learning",
    question="Does each training epoch run through all of its batches?",
    why="what comes after is never trained on; Lightning ends an epoch without a word where on_train_batch_start "
    "returns -1",
    severity=WARNING,
    evidence=EpochLength,
    judge=judge,
    fix=Fix("return nothing from on_train_batch_start; to leave a batch out, return None from training_step"),
    faulty=lambda: EpochLength(16, [3, 16]),
    healthy=lambda: EpochLength(16, [3], ended=True),
)
