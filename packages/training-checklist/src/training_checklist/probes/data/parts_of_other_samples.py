from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, default_collate

from training_checklist.instruments import (
    TOGETHER,
    Data,
    MappedDataset,
    Split,
    Validated,
    by_index,
    digest,
    is_within,
    labelled,
    leaves,
    normal,
    on_datasets,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    """Load a few samples together and alone, of what is the same each time."""
    chosen = by_index(split, least=TOGETHER).chosen(TOGETHER)
    together, again = (rows_of(data, split, chosen) for _ in range(2))
    alone = [rows_of(data, split, [index]) for index in chosen]
    steady = [
        place
        for place, rows in together.items()
        if place in again and same(rows, again[place]) and all(place in each for each in alone)
    ]
    # What is the same of each sample alone, as where its part of a long sequence begins, tells none from another.
    steady = [place for place in steady if not all(same(alone[0][place], each[place]) for each in alone)]
    matches = {
        place: [{r for r, row in enumerate(together[place]) if is_within(each[place][0], row)} for each in alone]
        for place in steady
    }
    apart, known = [], [place for place, rows in matches.items() if all(rows)]
    # Of a copy, which is rolled for its negatives, nothing is asked.
    copies = {two for one, two in combinations(known, 2) if all(same(each[one], each[two]) for each in alone)}
    for one, other in combinations([place for place in known if place not in copies], 2):
        number = sum(not mine & others for mine, others in zip(matches[one], matches[other], strict=True))
        apart += [(number, one, other)] if number else []
    if apart:  # one order that is wrong shows in many pairs
        number, one, other = max(apart, key=lambda each: each[0])
        yield Hit(
            f"{one} and {other} of a batch are in different orders: {number} of {TOGETHER} samples get the {other} of "
            "another one",
            split.place_of("collate_fn").beside(note=f"{one}, {other}"),
        )
    samples = [list(map(as_tensor, tree_leaves(sample))) for sample in split.items(chosen)]
    for place in steady:
        if len(samples) == TOGETHER and scrambled(together[place], samples):
            yield Hit(
                f"{place} of a batch has the values of its samples in another arrangement, in all of {TOGETHER}",
                split.place_of("collate_fn").beside(note=place),
                "pixels or time steps that were neighbours are not: view and reshape read memory in order, and move no "
                "dimension",
                Fix("stack the samples as they are, or x.permute(...) by which dimensions move"),
            )


def rows_of(data: Data, split: Split, indices: list[int]) -> dict[str, Tensor]:
    """Return every tensor of a batch of some samples that has one entry for each."""
    [(_, batch)] = split.fetch(indices, data.trainer, data.until, len(indices))
    found = {place: leaf.detach().cpu() for place, leaf in leaves(batch).items()}
    return {place: leaf for place, leaf in found.items() if leaf.ndim and len(leaf) == len(indices)}


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and bool(((one == other) | (one != one)).all())


def as_tensor(value: Any) -> Tensor | None:
    try:
        return torch.as_tensor(value).cpu()
    except Exception:  # text, an image, an object of the project's own that refuses to be asked for its length
        return None


def scrambled(rows: Tensor, samples: list[list[Tensor | None]]) -> bool:
    """Whether each row has the numbers of a part of its sample, in an arrangement that moves no whole dimension."""
    if rows[0].ndim < 2:
        return False
    pairs = [(row, rearranged(row, sample)) for row, sample in zip(rows, samples, strict=True)]
    return all(part is not None and not moved(row, part) for row, part in pairs)


def rearranged(row: Tensor, sample: list[Tensor | None]) -> Tensor | None:
    """Return the part of a sample that has the same numbers as a row of a batch, and another order.

    None where another part is that row, as of two rankings of the same things.
    """
    alike = [part for part in sample if part is not None and (part.shape, part.dtype) == (row.shape, row.dtype)]
    if any(same(part, row) for part in alike):
        return None
    numbers = row.flatten().sort().values
    return next((part for part in alike if same(part.flatten().sort().values, numbers)), None)


def moved(row: Tensor, part: Tensor) -> bool:
    """Whether slices along one dimension, or dimensions, have changed places: a flip, BGR for RGB, a transposition."""
    for order in permutations(range(part.ndim)):
        if same(part.permute(order), row):
            return True
    for dim in range(row.ndim):
        slices = [{digest(each) for each in one.unbind(dim)} for one in (row.contiguous(), part.contiguous())]
        if slices[0] == slices[1]:
            return True
    return False


def sorting(both: bool) -> DataLoader:
    def collate(samples: list) -> list[Tensor]:
        inputs, labels = default_collate(samples)
        order = inputs[:, 0].argsort()
        return [inputs[order], labels[order] if both else labels]

    return DataLoader(labelled(), 16, collate_fn=collate)


def reading(in_order: bool) -> DataLoader:
    """Return samples with 4 rows of 3 numbers, whose rows and columns change places, by a view or a permutation."""

    def collate(samples: list) -> list[Tensor]:
        inputs, labels, rows = default_collate(samples)
        return [inputs, labels, rows.transpose(1, 2) if in_order else rows.view(-1, 3, 4).transpose(1, 2)]

    return DataLoader(MappedDataset(lambda index, x, y: (x, y, normal(4, 3, seed=index))), 16, collate_fn=collate)


def end_to_end(batch: list) -> tuple[Tensor, Tensor, Tensor]:
    """Lay sequences one behind the other, and say where each begins."""
    sequences, numbers = zip(*batch, strict=True)
    ends = torch.tensor([len(each) for each in sequences]).cumsum(0)
    return torch.cat(sequences), torch.cat([torch.zeros(1, dtype=torch.long), ends[:-1]]), torch.tensor(numbers)


def rankings() -> MappedDataset:
    """Return samples with two rankings, which have the same numbers."""

    def ranked(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        one, two = (normal(3, 4, seed=seed).argsort(1) for seed in (index, index + 1000))
        return x, y, one, two

    return MappedDataset(ranked)


class Bags(Validated):
    """Takes the mean of each sequence."""

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        values, starts, numbers = batch
        parts = values.tensor_split(starts[1:])
        return super().training_step([torch.stack([each.mean(0) for each in parts]), numbers % 4], batch_idx)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx))


def bags() -> DataLoader:
    return DataLoader([(normal(3 + index % 4, 8, seed=index), index) for index in range(64)], 16, collate_fn=end_to_end)


PROBE = Probe(
    question="Does collate_fn keep the parts of a sample together, such as its input and its label?",
    why="inputs are learnt with what belongs to others, or as noise",
    fix=Fix("apply one order to all parts of the batch"),
    detect=detect,
    faulty=on_datasets(held_out=lambda: sorting(both=False)),
    also_faulty=(on_datasets(held_out=lambda: reading(in_order=False)),),
    healthy=on_datasets(held_out=lambda: sorting(both=True)),
    also_healthy=(
        on_datasets(held_out=lambda: reading(in_order=True)),
        on_datasets(bags, bags, module=Bags),
        on_datasets(held_out=rankings),
    ),
)
