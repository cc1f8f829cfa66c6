from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from training_checklist.evidence.memory_use import LoadedAgain
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(loaded: LoadedAgain, limits: Any) -> Iterator[Hit]:
    # A cache has the sample after the first time; only a leak goes on growing.
    if len(loaded.sizes) > 2 and all(later > earlier for earlier, later in pairwise(loaded.sizes)):
        yield Hit(
            f"{loaded.attribute} grows each time that one sample is loaded: {loaded.sizes[0]} to {loaded.sizes[-1]}",
            loaded.place,
            fix=Fix(f"keep nothing in {loaded.attribute}, or one entry a sample, under its index"),
        )


RULE = Rule(
    id="memory/dataset-grows",
    item="memory",
    question="Does the dataset keep nothing that grows with every sample loaded?",
    why="it grows with every sample of every epoch, in every worker, until memory is full",
    severity=FAILED,
    evidence=LoadedAgain,
    judge=judge,
    fix=Fix("keep nothing in it"),
    faulty=lambda: LoadedAgain("seen", [1, 2, 3], Place(loader="train_dataloader", note="Images.seen")),
    healthy=lambda: LoadedAgain("cache", [1, 1, 1]),
)
