"""Whether labels belong to inputs, told by a nearest-centroid classifier: no training, and hard to fool."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

FEATURES = 1024  # at most; larger inputs are averaged


@dataclass
class Sample:
    """Some inputs (N, F), standardised over all of them, with their labels (N,)."""

    inputs: Tensor
    labels: Tensor

    def half(self, which: int) -> "Sample":
        return Sample(self.inputs[which::2], self.labels[which::2])


def sample_of(inputs: Tensor, labels: Tensor) -> Sample:
    """Make a sample of inputs (N, ...): how they are scaled and shifted plays no part."""
    flat = inputs.float()
    if flat[0].numel() > FEATURES and flat.ndim == 4:
        flat = F.adaptive_avg_pool2d(flat, 16)
    flat = flat.flatten(1)
    if flat.shape[1] > FEATURES:
        flat = F.adaptive_avg_pool1d(flat[:, None], FEATURES)[:, 0]
    shuffled = torch.randperm(len(flat), generator=torch.Generator().manual_seed(0))  # halves must hold all classes
    flat = (flat - flat.mean()) / flat.std().clamp_min(1e-12)
    return Sample(flat[shuffled], labels.long()[shuffled])


def confusion(known: Sample, new: Sample, classes: int) -> Tensor:
    """Return (C, C) counts: rows are labels of `new`, columns the nearest class centre of `known`."""
    present = torch.unique(known.labels)
    centres = torch.stack([known.inputs[known.labels == label].mean(0) for label in present])
    nearest = present[torch.cdist(new.inputs, centres).argmin(1)]
    return torch.bincount(new.labels * classes + nearest, minlength=classes * classes).view(classes, classes)


def nearness(known: Sample, new: Sample) -> float:
    """Return the mean distance of new inputs from the nearest class centre."""
    centres = torch.stack([known.inputs[known.labels == label].mean(0) for label in torch.unique(known.labels)])
    return float(torch.cdist(new.inputs, centres).amin(1).mean())


def accuracy(table: Tensor) -> float:
    return float(table.diagonal().sum() / table.sum().clamp_min(1))


def renamed(own: Tensor, other: Tensor, least: float) -> dict[int, int]:
    """Return the classes that are another class in `other`, as a permutation: {label there: label here}.

    A class has moved where `own` finds at least the share `least` of its samples, `other` hardly any, and at least
    that share of them in one and the same other class. Empty unless the classes that moved change places.
    """
    moved = {}
    for label in range(len(other)):
        there, here = other[label].float(), own[label].float()
        if there.sum() < 5 or here.sum() < 5:
            continue
        share = there / there.sum()
        if here[label] / here.sum() >= least and share[label] < 0.2 and share.max() >= least:
            moved[label] = int(share.argmax())
    return moved if moved and set(moved) == set(moved.values()) else {}
