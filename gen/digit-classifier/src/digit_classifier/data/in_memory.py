"""A dataset that lives in memory and hands out whole batches."""

from collections.abc import Sequence
from copy import copy
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.data import Dataset
from training_runs.sampling.batches_on_device import beside

T = TypeVar("T")


class InMemoryDataset(Dataset[tuple[Tensor, Tensor]]):
    """Images (N, C, H, W) uint8 and labels (N,) int64; a batch is one indexing operation.

    `__getitems__` is what torch's DataLoader asks for when a dataset has it; the loader then needs
    `collate_fn=pass_through`, since the batch arrives collated.
    """

    def __init__(self, images: Tensor, labels: Tensor) -> None:
        if len(images) != len(labels):
            raise ValueError(f"{len(images)} images but {len(labels)} labels")
        self.images = images
        self.labels = labels

    def on(self, device: torch.device) -> "InMemoryDataset":
        """Return the same dataset with its images and labels on `device`."""
        there = copy(self)
        there.images, there.labels = self.images.to(device), self.labels.to(device)
        return there

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index], self.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        chosen = torch.as_tensor(indices)
        chosen = beside(self.images, chosen)
        return self.images[chosen], self.labels[chosen]


def pass_through(batch: T) -> T:
    """Collate function for batches that are collated already (a lambda would not pickle for spawned workers)."""
    return batch
