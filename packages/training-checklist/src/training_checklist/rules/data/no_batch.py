from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import LoaderSize
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(loader: LoaderSize, limits: Any) -> Iterator[Hit]:
    if loader.batches == 0 and (loader.samples or loader.stage == "train"):
        yield Hit(
            f"{loader.place.loader} has no batch: {loader.samples} samples, batch_size={loader.batch_size}, "
            f"drop_last={loader.drop_last}",
            loader.place,
        )


RULE = Rule(
    id="data/no-batch",
    item="limit_batches",
    question="Does every loader have a batch?",
    why="nothing is done with its samples, and the run ends as if it had been",
    severity=FAILED,
    evidence=LoaderSize,
    judge=judge,
    fix=Fix("a batch_size of at most the number of samples, or drop_last=False"),
    faulty=lambda: LoaderSize("train", samples=10, batches=0, batch_size=16, drop_last=True, fixed=False),
    healthy=lambda: LoaderSize("train", samples=10, batches=1, batch_size=16, drop_last=False, fixed=False),
)
