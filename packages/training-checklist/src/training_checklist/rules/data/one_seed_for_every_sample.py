from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Reseeded
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(seeded: Reseeded, limits: Any) -> Iterator[Hit]:
    if seeded.seed is not None:
        yield Hit(
            f"for each of {seeded.samples} samples a generator of random numbers begins anew, with seed {seeded.seed} "
            "each time",
            seeded.place.beside(loader="train_dataloader"),
        )


RULE = Rule(
    id="data/one-seed-for-every-sample",
    item="limit_batches",
    question="Do samples have random numbers of their own?",
    why="augmentation does the very same to every sample in every epoch: it is a fixed change, and no augmentation",
    severity=FAILED,
    evidence=Reseeded,
    judge=judge,
    fix=Fix("draw from torch's own generator, which each worker seeds; or make one generator, outside of __getitem__"),
    faulty=lambda: Reseeded(8, 0),
    healthy=lambda: Reseeded(8, None),
)
