from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import History
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(history: History, limits: Any) -> Iterator[Hit]:
    if history.hidden:
        raise CannotJudge("samples are random in a way that cannot be held still")
    if history.frozen and history.frozen == history.marked:
        yield Hit(
            f"{history.frozen} of {history.samples} samples are random, and stay as they came out when they were "
            "loaded first",
            history.place,
        )


RULE = Rule(
    id="data/augmented-once",
    item="limit_batches",
    question="Is a random sample drawn anew each time?",
    why="a cache keeps what augmentation has made: each epoch trains on the very same images",
    severity=WARNING,
    evidence=History,
    judge=judge,
    fix=Fix("cache what is read, and augment what comes out of the cache"),
    faulty=lambda: History(64, 0, 0, marked=60, frozen=60),
    healthy=lambda: History(64, 0, 0),
)
