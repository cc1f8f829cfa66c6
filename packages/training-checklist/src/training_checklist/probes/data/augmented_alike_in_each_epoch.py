import time
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    TOGETHER,
    Data,
    Example,
    MappedDataset,
    Split,
    by_index,
    normal,
    on_datasets,
    seeds_of,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

MOST, FIRST = 64, 1000  # samples that are held against each other, and their numbers
SHIFT = 1_000_003  # of a seed, to one that no other sample has


def detect(data: Data, limits: Limits) -> Hits:
    """See whether samples that are kept get the same random numbers each time that they are loaded.

    Samples that are made of random numbers alone, such as those of a demonstration, are others with other numbers.
    """
    split, began = by_index(data.train, least=TOGETHER), time.monotonic()
    if knows_epoch(split.dataset):
        return
    chosen = split.chosen(TOGETHER)

    def loaded(seed: int, shift: int = 0) -> list[tuple[dict, Tensor]]:
        return [seeds_of(split, data.trainer, index, seed, shift) for index in chosen]

    first, now = loaded(1), time.monotonic()
    if now + 2 * (now - began) > data.until:
        raise CannotJudge("samples are too slow to be loaded three times")
    again = loaded(2)
    lines = [
        line
        for line, seed in first[0][0].items()
        if len({one[0].get(line) for one in first}) > 1
        and all(line in one[0] and one[0][line] == other[0].get(line) for one, other in zip(first, again, strict=True))
    ]
    steady = all(torch.equal(one[1], other[1]) for one, other in zip(first, again, strict=True))
    values, shifted = ([numbers for _, numbers in each] for each in (first, loaded(1, SHIFT) if lines else first))
    if not lines or not steady or any(one.shape != two.shape for one, two in zip(values, shifted, strict=True)):
        return
    least = min(map(len, values))  # of texts of several lengths
    values, shifted = ([each[:least] for each in those] for those in (values, shifted))
    own = torch.stack([(one - other).norm() for one, other in zip(values, shifted, strict=True)]).mean()
    others = torch.stack([(one - other).norm() for one, other in pairwise(values)]).mean()
    limit = limits.max_distance if least >= limits.min_numbers else limits.max_distance_of_few
    if 0 < own < limit * others and not is_made_of_seeds(split, data, lines[0]):
        yield Hit(
            f"each of {TOGETHER} samples begins its random numbers with a seed of its own, the same each time, so that "
            "it is augmented alike in every epoch",
            lines[0].beside(loader="train_dataloader"),
        )


def is_made_of_seeds(split: Split, data: Data, line: Place) -> bool:
    """Whether samples have the same numbers where they have the same seed: then they are no more than that makes.

    So it is of patterns for a few classes, with noise.
    """
    seen: set[tuple[float, ...]] = set()
    for index in split.chosen(MOST):
        if time.monotonic() > data.until:
            break
        seed = seeds_of(split, data.trainer, index, 1)[0].get(line)
        if seed is None:
            break
        numbers = tuple(seeds_of(split, data.trainer, index, 1, 1 - seed)[1].tolist()[:FIRST])
        if numbers in seen:
            return True
        seen.add(numbers)
    return False


def knows_epoch(dataset: Any) -> bool:
    """Whether a dataset, or one that it wraps, keeps the number of the epoch, with which seeds may change."""
    inner = getattr(dataset, "dataset", None)
    return any("epoch" in name for name in getattr(dataset, "__dict__", {})) or (
        inner is not None and knows_epoch(inner)
    )


def noisy(strength: float, numbers: int = 1) -> Example:
    """Return samples of so many kept numbers of deviation 1, with noise of that strength, by a seed for each."""
    kept = torch.randn(160, numbers, generator=torch.Generator().manual_seed(1))

    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(index)
        return (
            x + strength * torch.randn(8, generator=generator),
            y,
            kept[index] + strength * torch.randn(numbers, generator=generator),
        )

    return on_datasets(lambda: MappedDataset(change))


def patterns() -> Example:
    """Return samples of four patterns, with noise by a seed for each."""
    kept = normal(4, 8)

    def change(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return kept[y] + 0.3 * torch.randn(8, generator=torch.Generator().manual_seed(index)), y

    return on_datasets(lambda: MappedDataset(change))


PROBE = Probe(
    question="Does random augmentation change a training sample in another way in each epoch?",
    why="augmentation makes many samples of one; with one seed for each sample there are no more than without it",
    severity=WARNING,
    fix=Fix("draw from torch's own generator, which each worker seeds anew: torch.randint(2**31, ()).item() as a seed"),
    detect=detect,
    faulty=noisy(0.3),
    healthy=noisy(2.0),
    also_healthy=(patterns(),),
    thresholds={
        "max_distance": Threshold(
            0.9,
            "of that of two samples, which is 1 of samples that are made of random numbers and nothing else",
            factor=2.0,
            faulty=noisy(0.9, 200),
            healthy=noisy(5.0, 200),
        ),
        "max_distance_of_few": Threshold(
            0.5, "likewise, where few numbers make the distances of eight samples as vague as a third"
        ),
        "min_numbers": Threshold(
            64,
            "of a sample: the distances of random ones differ by a tenth then, and less",
            faulty=noisy(0.9, 110),
            healthy=noisy(0.9, 40),
        ),
    },
)
