from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.shared import SharedRecordings
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(found: SharedRecordings, limits: Any) -> Iterator[Hit]:
    if found.shared > limits.max_recordings * found.total:
        yield Hit(
            f"{found.shared} of {found.total} {found.kept} of {found.split} are in the training set too, which has "
            "more of them",
            found.place.beside(note=found.kept),
        )


RULE = Rule(
    id="data/shared-recordings",
    item="limit_batches",
    question="Is what held-out samples are cut from absent from the training set?",
    why="the network knows these recordings, whatever augmentation or windows make of them: its metrics there say "
    "nothing about new data",
    severity=FAILED,
    evidence=SharedRecordings,
    judge=judge,
    fix=Fix("read each split from files of its own, and split before samples are cut"),
    faulty=lambda: SharedRecordings("series", "val_dataloader", 12, 12),
    healthy=lambda: SharedRecordings("series", "val_dataloader", 0, 12),
    thresholds={
        "max_recordings": Threshold(0.01, "share of recordings with an exact copy, as for samples (shared-samples)")
    },
)
