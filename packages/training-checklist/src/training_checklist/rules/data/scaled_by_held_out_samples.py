from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.columns import FittedTo
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(fitted: FittedTo, limits: Any) -> Iterator[Hit]:
    most = fitted.columns / 2
    for kind, counts in (("mean 0 and deviation 1", fitted.standard), ("a range from 0 to 1", fitted.ranged)):
        # That least and largest values of the training set are those of both is nothing: one split has them.
        both = counts["both"] > most and counts["train"] <= most
        if both and (kind.startswith("mean") or counts["both"] == fitted.columns > counts["train"] + 1):
            yield Hit(
                f"{counts['both']} of {fitted.columns} columns have {kind} over the samples of the training set and "
                f"{fitted.other} together, and {counts['train']} over those of the training set alone",
                fitted.place,
            )
            return


RULE = Rule(
    id="data/scaled-by-held-out-samples",
    item="limit_batches",
    question="Is the scale of columns that of the training set, and of no sample that is held out?",
    why="what is held out has had a part in the preparation of the training data: it is no longer unseen",
    severity=FAILED,
    evidence=FittedTo,
    judge=judge,
    fix=Fix("split first; then take mean and deviation of the training set, and scale every split by them"),
    faulty=lambda: FittedTo(
        "val_dataloader", {"train": 0, "other": 0, "both": 6}, {"train": 0, "other": 0, "both": 0}, 6
    ),
    healthy=lambda: FittedTo(
        "val_dataloader", {"train": 6, "other": 0, "both": 0}, {"train": 0, "other": 0, "both": 0}, 6
    ),
)
