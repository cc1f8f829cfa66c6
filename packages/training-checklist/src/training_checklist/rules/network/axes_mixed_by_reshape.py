from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Reshape, Reshapes
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(reshapes: Reshapes, limits: Any) -> Iterator[Hit]:
    for call in reshapes.calls:
        yield Hit(call.told, call.place)


RULE = Rule(
    id="network/axes-mixed-by-reshape",
    item="trace",
    question="Are axes exchanged by transposing, and not by reshaping?",
    why="a reshape leaves the numbers in their order: each row of the result holds parts of several rows, or samples",
    severity=WARNING,
    evidence=Reshapes,
    judge=judge,
    fix=Fix("transpose(1, 2), permute or movedim moves the numbers with their axes"),
    faulty=lambda: Reshapes([Reshape("reshape", (8, 12, 24), (8, 24, 12))]),
    healthy=lambda: Reshapes(),
)
