from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import LabelRange
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

VOID = ([255], [-1])  # what unlabelled pixels and tokens have in most datasets


def judge(labels: LabelRange, limits: Any) -> Iterator[Hit]:
    if labels.outside:
        named = ", ".join(map(str, labels.outside[:5]))
        yield Hit(
            f"label {named} in {labels.place.loader}, but the network has {labels.classes} outputs "
            f"(0..{labels.classes - 1}); {labels.count} of {labels.of} labels are outside",
            labels.place,
            fix=Fix(f"ignore_index={named}, where {named} stands for no class") if labels.outside in VOID else None,
        )


RULE = Rule(
    id="data/label-out-of-range",
    item="limit_batches",
    question="Has the network an output for every label?",
    why="the criterion looks for an output of that number: an IndexError, or a crash of the GPU",
    severity=FAILED,
    evidence=LabelRange,
    judge=judge,
    fix=Fix("let labels run from 0 to the number of classes - 1, or give the network more outputs"),
    faulty=lambda: LabelRange([10], count=3, of=64, classes=10),
    healthy=lambda: LabelRange([], count=0, of=64, classes=10),
)
