"""Whether labels belong to inputs, told by a nearest-centroid classifier: no training, and hard to fool."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

FEATURES = 1024  # at most; larger inputs are averaged
LEAST = 50  # samples of a split that are judged by


@dataclass
class Sample:
    """Some inputs (N, F), standardised over all of them, with their labels (N,), in the order of the dataset."""

    inputs: Tensor
    labels: Tensor

    def halves(self) -> tuple["Sample", "Sample"]:
        """Return the first half of each class and the second: neighbours in a dataset are often of one recording."""
        first = torch.zeros(len(self.labels), dtype=torch.bool)
        for label in self.labels.unique():
            positions = (self.labels == label).nonzero().flatten()
            first[positions[: (len(positions) + 1) // 2]] = True
        return Sample(self.inputs[first], self.labels[first]), Sample(self.inputs[~first], self.labels[~first])


def sample_of(inputs: Tensor | None, labels: Tensor | None, classes: int, ignored: int) -> Sample | None:
    """Make a sample of inputs (N, ...), however scaled and shifted; None where labels can't be judged by them."""
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:  # (N, 1), as tables have them
        labels = labels.squeeze(1)
    if inputs is None or labels is None or not inputs.is_floating_point() or inputs.ndim < 2 or labels.ndim != 1:
        return None
    known = (labels >= 0) & (labels < classes) & (labels != ignored) & inputs.flatten(1).isfinite().all(1)
    if known.sum() < LEAST:
        return None
    flat, labels = inputs[known].float(), labels[known]
    if flat[0].numel() > FEATURES and flat.ndim == 4:
        flat = F.adaptive_avg_pool2d(flat, 16)
    flat = flat.flatten(1)
    if flat.shape[1] > FEATURES:
        flat = F.adaptive_avg_pool1d(flat[:, None], FEATURES)[:, 0]
    return Sample((flat - flat.mean()) / flat.std().clamp_min(1e-12), labels.long())


def of_known_classes(held: Sample, train: Sample) -> Sample | None:
    """Return the samples whose classes the training set has too, None where those are too few to judge by."""
    known = torch.isin(held.labels, train.labels)
    return Sample(held.inputs[known], held.labels[known]) if known.sum() >= LEAST else None


def tables(train: Sample, held: Sample) -> tuple[list[int], Tensor, Tensor, Tensor]:
    """Return the labels of both splits, and the counts that a `LabelFit` holds."""
    labels = torch.cat([train.labels, held.labels]).unique()
    train, held = (Sample(each.inputs, torch.searchsorted(labels, each.labels)) for each in (train, held))
    halves = (confusion(*each.halves(), len(labels)) for each in (train, held))
    return labels.tolist(), next(halves), confusion(train, held, len(labels)), next(halves)


def confusion(known: Sample, new: Sample, classes: int) -> Tensor:
    """Return (C, C) counts: rows are labels of `new`, columns the nearest class centre of `known`."""
    present = torch.unique(known.labels)
    centres = torch.stack([known.inputs[known.labels == label].mean(0) for label in present])
    nearest = present[torch.cdist(new.inputs, centres).argmin(1)]
    return torch.bincount(new.labels * classes + nearest, minlength=classes * classes).view(classes, classes)
