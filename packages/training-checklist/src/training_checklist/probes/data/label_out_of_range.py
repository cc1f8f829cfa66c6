import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from training_checklist.instruments import (
    RAISED,
    TOGETHER,
    Data,
    MappedDataset,
    Outside,
    Split,
    Validated,
    is_left_out,
    labelled,
    labels,
    load,
    on_datasets,
    outside,
    part,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

VOID = ([255], [-1])  # what unlabelled pixels and tokens have in most datasets


def detect(data: Data, limits: Limits) -> Hits:
    found = data.seen.labels_outside or beyond_the_batches(data)
    if found is not None:
        named = ", ".join(map(str, found.wrong[:5]))
        yield Hit(
            f"label {named} in {found.place.loader}, but the network has {found.number} outputs "
            f"(0..{found.number - 1}); {found.count} of {found.of} labels are outside",
            found.place,
            fix=Fix(f"ignore_index={named}, where {named} stands for no class") if found.wrong in VOID else None,
        )


def beyond_the_batches(data: Data) -> Outside | None:
    if data.error is not None or data.roles.classes is None:
        return None
    for split in data.alike:
        known = labels(data, split).long()
        counted = (known != data.roles.ignored).nonzero().flatten().tolist()
        is_part = split.indexable and len(known) < split.samples  # of a stream, those of the batches
        samples = part(data, split).indices if is_part else range(len(known))
        known = known[counted]
        found = outside(known, data.roles.classes, split.place, [samples[index] for index in counted])
        # Where all classes of a split are others than those of training, answers are not held against its labels: they
        # are searched for among each other.
        if found is not None and (split is data.train or found.count < len(known)):
            is_meant = are_of_the_batch(data, split) or is_left_out(data, split, found.place.sample)
            return None if is_meant else found
    return None


def are_of_the_batch(data: Data, split: Split) -> bool:
    """Whether labels are other ones where samples are collated alone: they number what a batch has of each."""
    chosen = split.chosen(TOGETHER)
    asked = [chosen, chosen, *([index] for index in chosen)]
    loaded = (load(split, indices, data.roles, data.trainer, math.inf).of(data.roles.target) for indices in asked)
    together, again, *alone = loaded
    if together is None or again is None or any(each is None for each in alone) or not torch.equal(together, again):
        return False
    return not all(torch.equal(one[0], row) for one, row in zip(alone, together, strict=True))


class InBatch(Validated):
    """Tells for each question which of the passages of its batch is its own."""

    def forward(self, inputs: Tensor) -> Tensor:
        vectors = super().forward(inputs)
        return vectors @ vectors.T


class PartlyLabelled(Validated):
    """Leaves out samples whose label is -1."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        known = labels >= 0
        return super().loss(answers[known], labels[known])


def numbered(drawn: list) -> list[Tensor]:
    return [torch.stack([each for each, _ in drawn]), torch.arange(len(drawn))]


class Retrieving(Validated):
    """Is validated by what lies next to each sample."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        near = torch.cdist(self(batch[0]), self(batch[0])).fill_diagonal_(torch.inf).argmin(1)
        self.log("val/recall", (batch[1][near] == batch[1]).float().mean())


class Stream(IterableDataset):
    """Says how many samples it has, and gives none by its index."""

    def __len__(self) -> int:
        return len(labelled())

    def __iter__(self) -> Iterator[Any]:
        return (labelled()[index] for index in range(len(self)))


PROBE = Probe(
    question="Is every label between 0 and the number of the network's outputs - 1?",
    why="the criterion looks for an output of that number: an IndexError, or a crash of the GPU",
    fix=Fix("let labels run from 0 to the number of classes - 1, or give the network more outputs"),
    detect=detect,
    steps=("on_fit_end", RAISED),
    faulty=on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y + 1))),
    healthy=on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y))),
    also_faulty=(on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y + 4 * (index == 150)))),),
    also_healthy=(
        on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y if index % 8 else y * 0 - 100))),
        on_datasets(held_out=lambda: MappedDataset(lambda index, x, y: (x, y + 4)), module=Retrieving),
        on_datasets(module=InBatch, collate_fn=numbered),
        on_datasets(lambda: DataLoader(Stream(), 16)),
        on_datasets(lambda: MappedDataset(lambda index, x, y: (x, y - 9 * (index == 150))), module=PartlyLabelled),
    ),
)
