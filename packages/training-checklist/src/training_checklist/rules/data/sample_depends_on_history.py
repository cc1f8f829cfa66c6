from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import History
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(history: History, limits: Any) -> Iterator[Hit]:
    if history.hidden:
        raise CannotJudge("samples are random in a way that cannot be held still")
    if history.unsteady:
        where = ", ".join(history.changed[:3])
        yield Hit(
            f"{history.unsteady} of {history.samples} samples are others when they are loaded again: loading changes "
            f"what the dataset keeps in {where}",
            history.place.beside(note=where),
            "each epoch and each split that shares these data gets other values",
            Fix("copy before you change: x = x / scale, and not x /= scale, on a slice of what is kept"),
        )
    elif history.marked > history.frozen:
        where = ", ".join(history.changed[:3])
        yield Hit(
            f"{history.marked} of {history.samples} samples are others, with the same random numbers, when they have "
            f"been loaded before: augmentation changes what the dataset keeps{f' in {where}' if where else ''}",
            history.place.beside(note=where),
            "what augmentation does to a sample adds up from epoch to epoch",
            Fix("copy before you change: image = self.images[index].clone(), and no slice of what is kept"),
        )
    elif history.moved:
        yield Hit(
            f"{history.moved} of {history.samples} samples are others when samples after them are loaded first, with "
            f"the same random numbers",
            history.place,
        )


RULE = Rule(
    id="data/sample-depends-on-history",
    item="limit_batches",
    question="Is a sample the same whatever was loaded before it?",
    why="an index does not stand for one sample: a cache that knows a sample by a part of its index only gives "
    "several the first one's data",
    severity=FAILED,
    evidence=History,
    judge=judge,
    fix=Fix("key the cache in __getitem__ by the whole index"),
    faulty=lambda: History(64, 0, 37),
    healthy=lambda: History(64, 0, 0, ["Images.cache"]),
)
