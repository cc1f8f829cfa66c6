from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import FrozenAugmentation
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(seen: FrozenAugmentation, limits: Any) -> Iterator[Hit]:
    if seen.steady and seen.distance is not None and 0 < seen.distance < limits.max_distance:
        yield Hit(
            f"each of {seen.samples} samples begins its random numbers with a seed of its own, the same each time, so "
            f"that it is augmented alike in every epoch",
            seen.place.beside(loader="train_dataloader"),
        )


RULE = Rule(
    id="data/augmented-alike-in-each-epoch",
    item="limit_batches",
    question="Is a training sample augmented anew in each epoch?",
    why="augmentation makes many samples of one; with one seed for each sample there are no more than without it",
    severity=WARNING,
    evidence=FrozenAugmentation,
    judge=judge,
    fix=Fix("draw from torch's own generator, which each worker seeds anew: torch.randint(2**31, ()).item() as a seed"),
    faulty=lambda: FrozenAugmentation(8, 0.3, steady=True),
    healthy=lambda: FrozenAugmentation(8, 1.0, steady=True),
    thresholds={
        "max_distance": Threshold(
            0.7, "of that of two samples, which is 1 of samples that are made of random numbers and nothing else"
        )
    },
)
