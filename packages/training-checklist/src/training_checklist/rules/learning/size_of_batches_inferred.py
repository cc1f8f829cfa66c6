from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import InferredSizes
from training_checklist.finding import FAILED, NOWHERE, Fix
from training_checklist.rule import Hit, Rule


def judge(sizes: InferredSizes, limits: Any) -> Iterator[Hit]:
    others = set(sizes.inferred)
    # One size for all is one weight for all; and what is answered for each of those is averaged over them.
    if len(others) < 2 or sizes.samples not in sizes.answered or others & sizes.answered:
        return
    for name, place in sizes.names.items():
        yield Hit(
            f"{name} is logged without batch_size: Lightning weights the batches by the first length that it finds in "
            f"them, {min(others)} to {max(others)}, and each has {sizes.samples} samples",
            place,
        )


RULE = Rule(
    id="learning/size-of-batches-inferred",
    item="learning",
    question="Does self.log get batch_size where Lightning would infer a wrong one?",
    why="the mean of an epoch depends on how many nodes, words or time steps a batch has, and not on its samples",
    severity=FAILED,
    evidence=InferredSizes,
    judge=judge,
    fix=Fix("tell it: self.log(name, value, batch_size=len(labels))"),
    faulty=lambda: InferredSizes({"val/loss": NOWHERE}, [301, 288], 32, {32}),
    healthy=lambda: InferredSizes({"val/loss": NOWHERE}, [301, 288], 32, {301, 288, 32}),
)
