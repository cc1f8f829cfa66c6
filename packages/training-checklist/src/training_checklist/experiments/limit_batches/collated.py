"""What a collate function makes of samples: whether it keeps together, and in order, what belongs to one."""

from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from training_checklist.engines.batches import leaves
from training_checklist.engines.splits import Split
from training_checklist.evidence.loading import Collated
from training_checklist.experiments.limit_batches.samples import TOGETHER, is_within
from training_checklist.lightning import Trainer

LEAST = 16  # numbers of a sample: fewer can be in another order by chance


def collated(split: Split, trainer: Trainer, until: float) -> Collated | None:
    """Load a few samples together and alone, of a split that gives the same each time; None where it does not."""
    chosen = split.chosen(TOGETHER) if split.indexable else []
    if len(chosen) < TOGETHER:
        return None
    together, again = (rows_of(split, chosen, trainer, until) for _ in range(2))
    alone = [rows_of(split, [index], trainer, until) for index in chosen]
    steady = [
        place
        for place, rows in together.items()
        if place in again and same(rows, again[place]) and all(place in each for each in alone)
    ]
    matches = {
        place: [{r for r, row in enumerate(together[place]) if is_within(each[place][0], row)} for each in alone]
        for place in steady
    }
    found = Collated(TOGETHER, place=split.place_of("collate_fn"))
    for one, other in combinations([place for place, rows in matches.items() if all(rows)], 2):
        apart = sum(not mine & others for mine, others in zip(matches[one], matches[other], strict=True))
        if apart and not all(same(each[one], each[other]) for each in alone):  # of a copy, rolled for its negatives
            found.apart.append((one, other, apart))
    found.apart = sorted(found.apart, key=lambda each: -each[2])[:1]  # one order that is wrong shows in many pairs
    samples = [list(map(as_tensor, tree_leaves(sample))) for sample in split.items(chosen)]
    found.scrambled = [place for place in steady if len(samples) == TOGETHER and scrambled(together[place], samples)]
    return found


def rows_of(split: Split, indices: list[int], trainer: Trainer, until: float) -> dict[str, Tensor]:
    """Return every tensor of a batch of some samples that has one entry for each."""
    [(_, batch)] = split.fetch(indices, trainer, until, len(indices))
    found = {place: leaf.detach().cpu() for place, leaf in leaves(batch).items()}
    return {place: leaf for place, leaf in found.items() if leaf.ndim and len(leaf) == len(indices)}


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and bool(((one == other) | (one != one)).all())


def as_tensor(value: Any) -> Tensor | None:
    try:
        return torch.as_tensor(value).cpu()
    except (TypeError, ValueError, RuntimeError):  # text, an image
        return None


def scrambled(rows: Tensor, samples: list[list[Tensor | None]]) -> bool:
    """Whether each row has the numbers of a part of its sample, in an arrangement that moves no whole dimension."""
    if rows[0].ndim < 2 or rows[0].numel() < LEAST:
        return False
    pairs = [(row, rearranged(row, sample)) for row, sample in zip(rows, samples, strict=True)]
    return all(part is not None and not moved(row, part) for row, part in pairs)


def rearranged(row: Tensor, sample: list[Tensor | None]) -> Tensor | None:
    """Return the part of a sample that has the same numbers as a row of a batch, and another order."""
    for part in sample:
        alike = part is not None and (part.shape, part.dtype) == (row.shape, row.dtype) and not same(part, row)
        if alike and same(part.flatten().sort().values, row.flatten().sort().values):
            return part
    return None


def moved(row: Tensor, part: Tensor) -> bool:
    """Whether slices along one dimension, or dimensions, have changed places: a flip, BGR for RGB, a transposition."""
    for order in permutations(range(part.ndim)):
        if same(part.permute(order), row):
            return True
    for dim in range(row.ndim):
        slices = [{each.numpy().tobytes() for each in one.unbind(dim)} for one in (row.contiguous(), part.contiguous())]
        if slices[0] == slices[1]:
            return True
    return False
