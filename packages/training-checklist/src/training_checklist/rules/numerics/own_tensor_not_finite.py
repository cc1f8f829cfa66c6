from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import OwnTensor
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(tensor: OwnTensor, limits: Any) -> Iterator[Hit]:
    if not tensor.finite:
        yield Hit(tensor.what, tensor.place)


RULE = Rule(
    id="numerics/own-tensor-not-finite",
    item="overflow",
    question="Is every tensor finite that the project gives to detect_overflow?",
    why="what detect_overflow was given has left the range of its type",
    severity=FAILED,
    evidence=OwnTensor,
    judge=judge,
    fix=Fix("look at what makes it"),
    faulty=lambda: OwnTensor("hidden: 1 NaN and 0 Inf of 3 (float32)", finite=False, place=Place(note="hidden")),
    healthy=lambda: OwnTensor("hidden: 3 values", finite=True),
)
