from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import LoadedReshapes
from training_checklist.finding import FAILED, Fix
from training_checklist.lab.shapes import Reshape
from training_checklist.rule import Hit, Rule


def judge(reshapes: LoadedReshapes, limits: Any) -> Iterator[Hit]:
    for call in reshapes.calls:
        yield Hit(call.told, call.place.beside(loader="train_dataloader"))


RULE = Rule(
    id="data/axes-mixed-by-reshape",
    item="limit_batches",
    question="Are the axes of a sample exchanged by transposing, and not by reshaping?",
    why="a reshape leaves the numbers in their order: each channel of the result holds pieces of all channels and rows",
    severity=FAILED,
    evidence=LoadedReshapes,
    judge=judge,
    fix=Fix("image.transpose(2, 0, 1) of an array, and permute(2, 0, 1) of a tensor, move the numbers with their axes"),
    faulty=lambda: LoadedReshapes([Reshape("reshape", (32, 32, 8), (8, 32, 32))]),
    healthy=lambda: LoadedReshapes(),
)
