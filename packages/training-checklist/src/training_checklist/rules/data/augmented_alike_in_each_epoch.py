from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import FrozenAugmentation
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(seen: FrozenAugmentation, limits: Any) -> Iterator[Hit]:
    limit = limits.max_distance if seen.numbers >= limits.min_numbers else limits.max_distance_of_few
    if seen.steady and seen.distance is not None and 0 < seen.distance < limit:
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
            0.9, "of that of two samples, which is 1 of samples that are made of random numbers and nothing else"
        ),
        "max_distance_of_few": Threshold(
            0.5, "likewise, where few numbers make the distances of eight samples as vague as a third"
        ),
        "min_numbers": Threshold(64, "of a sample: the distances of random ones differ by a tenth then, and less"),
    },
)
