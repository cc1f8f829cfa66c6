from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.shared import SharedParts
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(parts: SharedParts, limits: Any) -> Iterator[Hit]:
    if parts.shared > limits.max_shared_parts * parts.samples:
        yield Hit(
            f"{parts.shared} of {parts.samples} samples that were looked at have parts of training samples in "
            f"{parts.leaf}: {parts.length} numbers in a row, or more, the same to the last bit",
            parts.place.beside(note=parts.leaf),
        )


RULE = Rule(
    id="data/shared-parts",
    item="limit_batches",
    question="Are held-out samples free of parts of training samples?",
    why="windows or tiles that overlap were split at random: the network knows a part of the answers by heart, and its "
    "metrics there say nothing about new data",
    severity=FAILED,
    evidence=SharedParts,
    judge=judge,
    fix=Fix("split the recordings or scenes first, by time or by place, and cut each part into windows or tiles then"),
    faulty=lambda: SharedParts("batch['target']", 400, 320, 4),
    healthy=lambda: SharedParts("batch['target']", 400, 2, 4),
    thresholds={
        "max_shared_parts": Threshold(
            0.01, "share of held-out samples, as for whole ones (data/shared-samples): exact copies are rarer than that"
        )
    },
)
