from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import EpochOrders
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(orders: EpochOrders, limits: Any) -> Iterator[Hit]:
    first, *later = orders.batches or [[]]
    # One batch again and again has one order.
    if orders.draws and later and len(set(first)) > 1 and all(each == first for each in later):
        yield Hit(
            f"{orders.sampler} shuffles, and the first {len(first)} batches of all epochs have the same samples",
            orders.place,
        )


RULE = Rule(
    id="data/same-order-every-epoch",
    item="learning",
    question="Are training data shuffled anew in each epoch?",
    why="batches hold the same samples together again and again, and come in one order: shuffled once and never again",
    severity=WARNING,
    evidence=EpochOrders,
    judge=judge,
    fix=Fix(
        "draw by seed and epoch: generator.manual_seed(self.seed + self.epoch), with set_epoch, which Lightning calls"
    ),
    faulty=lambda: EpochOrders([["a", "b", "c"], ["a", "b", "c"]], "BucketBatchSampler", draws=True),
    healthy=lambda: EpochOrders([["a", "b", "c"], ["b", "c", "a"]], "BucketBatchSampler", draws=True),
)
