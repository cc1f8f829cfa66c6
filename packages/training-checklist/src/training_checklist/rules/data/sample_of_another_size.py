from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import SampleSizes
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(sizes: SampleSizes, limits: Any) -> Iterator[Hit]:
    usual, *others = sorted(sizes.indices, key=lambda size: -len(sizes.indices[size]))
    if not others:
        return
    first = sizes.indices[others[0]][0]
    yield Hit(
        f"item {first} of the training set is {others[0]} and others are {usual}; "
        f"{sum(len(sizes.indices[size]) for size in others)} of the first "
        f"{sum(map(len, sizes.indices.values()))} are of another size",
        sizes.place.beside(sample=first),
        f"samples of several sizes make no batch: {sizes.error}",
    )


RULE = Rule(
    id="data/sample-of-another-size",
    item="limit_batches",
    question="Do samples have one size, where the loader can make no batch of several?",
    why="samples of several sizes make no batch",
    severity=FAILED,
    evidence=SampleSizes,
    judge=judge,
    fix=Fix("resize, crop or pad them in the dataset, or give the DataLoader a collate_fn that can"),
    faulty=lambda: SampleSizes({"3x32x32": [0, 1, 3], "3x32x31": [2]}, "stack expects each tensor to be equal size"),
    healthy=lambda: SampleSizes({"3x32x32": [0, 1, 2, 3]}, "a worker was killed"),
)
