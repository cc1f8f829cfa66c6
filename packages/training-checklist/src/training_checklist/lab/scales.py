"""Mean and deviation of inputs and targets, and by how much two splits differ in them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from training_checklist.lab.data import Part
from training_checklist.lab.roles import Roles

BLOCKS = 4  # consecutive parts of a split
# Samples from which on `differ` can be trusted, which allows for the error of a mean: of 400 pairs of one distribution,
# with 320 samples and 32, it parts 2 for a single lognormal column, at most 1 for an exponential, Student's t with 3
# degrees of freedom or a common factor, none where samples have 6 independent numbers or more; of 8 samples, up to 8.
LEAST = 32
MOST_NUMBERS = 8  # of a target: of a series or an image, neighbours tell each
MASKS = 20  # different values: masks and weights of classes have fewer


@dataclass
class Scale:
    """Some numbers of one split.

    Args:
        error: standard error of the mean.
        means: of consecutive parts of the split, in the order of the dataset.
        stds: likewise.
    """

    mean: float
    std: float
    error: float
    means: list[float]
    stds: list[float]


def scale_of(values: Tensor | None) -> Scale | None:
    """Return the scale of (N, ...); None of what are no numbers, or of too few samples."""
    if values is None or len(values) < LEAST or not values.is_floating_point() or values.ndim < 2:
        return None
    values = values.float()
    error = float(values.flatten(1).mean(1).std() / len(values) ** 0.5)
    means, stds = ([float(of(block)) for block in values.chunk(BLOCKS)] for of in (torch.mean, torch.std))
    return Scale(float(values.mean()), float(values.std()), error, means, stds)


def typical(values: Tensor) -> Scale:
    """Return the median of the samples' own means, and of their deviations, which few samples do not move."""
    rows = values.flatten(1).float()
    means, stds = rows.mean(1), rows.std(1)
    mean, std = float(means.median()), float(stds.median())
    return Scale(mean, std, 0.0, [mean], [std])


def differ(train: Scale, other: Scale, max_shift: float, max_ratio: float) -> bool:
    """Whether means are apart by more deviations, or deviations by a greater factor, beyond drift and error."""
    largest, smallest = max(train.std, other.std), max(min(train.std, other.std), 1e-12)
    # Data that drift from one part of a split to the next may drift as far again to the next split.
    drift = max(max(each.means) - min(each.means) for each in (train, other)) + 4 * (train.error + other.error)
    # Of numbers that drift, those of all parts together are further apart than those of each, and of a later part.
    stds = [(each.std, *each.stds) for each in (train, other)]
    growth = max(max(each) / min(each) if min(each) > 0 else math.inf for each in stds)
    return abs(train.mean - other.mean) - drift > max_shift * largest or largest / smallest > max_ratio * growth


def numbers_of_targets(part: Part, roles: Roles) -> dict[str, Tensor]:
    """Return each number that a regression asks for, (N,), by its place; NaN where it is not known.

    Where the loss is written out, what it compares with are targets, or masks and weights, which have few values.
    """
    found = {}
    for place in sorted(roles.compared) if roles.target is None else [roles.target]:
        values = part.of(place)
        if values is None or not values.is_floating_point() or values[0].numel() > MOST_NUMBERS:
            continue
        for index, column in enumerate(values.reshape(len(values), -1).T):
            if place == roles.target or len(column[column.isfinite()].unique()) > MASKS:
                found[place if values.ndim == 1 else f"{place}[:, {index}]"] = column
    return found
