from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import ChangedDataset
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(changed: ChangedDataset, limits: Any) -> Iterator[Hit]:
    if changed.changes and changed.workers and changed.persistent:
        yield Hit(
            f"the training set is changed from one epoch to the next, {', '.join(changed.changes[:3])}, and its "
            f"{changed.workers} persistent workers keep the copies that they began with",
            changed.place,
        )


RULE = Rule(
    id="data/change-unseen-by-workers",
    item="learning",
    question="Do the workers see what changes in the training set between epochs?",
    why="each worker has a copy of the dataset from when it was started: with persistent_workers=True, before the "
    "first epoch",
    severity=FAILED,
    evidence=ChangedDataset,
    judge=judge,
    fix=Fix("persistent_workers=False, or keep the value in shared memory: torch.tensor(0.0).share_memory_()"),
    faulty=lambda: ChangedDataset(["dataset.strength: 0.0 -> 0.1"], 2, persistent=True),
    healthy=lambda: ChangedDataset(["dataset.strength: 0.0 -> 0.1"], 2, persistent=False),
)
