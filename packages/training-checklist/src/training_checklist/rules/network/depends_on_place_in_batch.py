from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import PlaceInBatch
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(batch: PlaceInBatch, limits: Any) -> Iterator[Hit]:
    if batch.moved and all(loss != batch.loss for loss in batch.moved):
        others = ", ".join(f"{loss:.6g}" for loss in batch.moved)
        yield Hit(
            f"the loss of {batch.samples} samples is {batch.loss:.6g}, and {others} where the same samples stand at "
            f"other places of the batch",
            batch.place,
        )


RULE = Rule(
    id="network/depends-on-place-in-batch",
    item="trace",
    question="Is a sample the same wherever in the batch it stands?",
    why="what is learnt of a sample depends on the samples that were drawn before it: something is indexed by the "
    "dimension of the batch, such as positions in time",
    severity=WARNING,
    evidence=PlaceInBatch,
    judge=judge,
    fix=Fix("print the shapes: batch_first, and x.size(1) or x.size(0) for the length of a sequence"),
    faulty=lambda: PlaceInBatch(8, 2.31, [2.29, 2.34, 2.3]),
    # Of pairs that follow one another, which moving by two places keeps together.
    healthy=lambda: PlaceInBatch(8, 2.31, [2.29, 2.31, 2.31]),
)
