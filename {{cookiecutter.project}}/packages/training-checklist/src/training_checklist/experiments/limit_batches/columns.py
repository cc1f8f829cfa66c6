"""The columns of tables, and the channels of images and sequences."""

from collections.abc import Iterator

import torch
from torch import Tensor

from training_checklist.evidence.columns import Column, Columns, ColumnsOfSplits
from training_checklist.experiments.limit_batches.roles import Roles
from training_checklist.experiments.limit_batches.samples import LEAST, Part

MOST = 64  # columns of which each is held against each
CHANNELS = {2: 1, 3: 2, 4: 1}  # by the number of dimensions: (N, columns), (N, time, features), (N, channels, H, W)


def columns(part: Part, roles: Roles) -> list[Columns]:
    """Return the tables that enter the network, with what stands at the ends of their columns."""
    return [
        Columns(list(ends(place, values)), len(values), part.split.place.beside(note=place))
        for place, values in tables(part, roles)
        if values.ndim == 2
    ]


def ends(place: str, table: Tensor) -> Iterator[Column]:
    for index, column in enumerate(table.T):
        for value in column.aminmax():
            others = column[column != value]
            if len(others):
                low, high = others.aminmax()
                nearest, spread = float(low if value < low else high), float(high - low)
                name = f"{place}[:, {index}]"
                yield Column(name, float(value), len(column) - len(others), nearest, spread, len(others.unique()))


def columns_of_splits(own: Part, other: Part, roles: Roles) -> list[ColumnsOfSplits]:
    """Hold each column of the training set's inputs against each of another split's."""
    theirs, found = dict(tables(other, roles)), []
    for place, values in tables(own, roles):
        held = theirs.get(place)
        if held is not None and values.ndim == held.ndim in CHANNELS:
            one, two = moments(values), moments(held)
            if 2 <= len(one) == len(two) <= MOST:
                shifts = [[shift(mine, other) for other in two] for mine in one]
                found.append(ColumnsOfSplits(other.split.name, shifts, other.split.place.beside(note=place)))
    return found


def moments(values: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return for each column means of values and of their squares over samples, and their standard errors, (2,)."""
    channels = values.double().movedim(CHANNELS[values.ndim], 0)  # (C, N, ...)
    found = []
    for channel in channels.reshape(len(channels), len(values), -1):
        each = torch.stack([channel.mean(1), channel.square().mean(1)])
        found.append((each.mean(1), each.std(1) / len(values) ** 0.5))
    return found


def shift(one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor]) -> float:
    """Return how far two columns are apart, in standard errors of the difference."""
    errors = torch.hypot(one[1], two[1]).clamp_min(1e-12)
    return float(((one[0] - two[0]).abs() / errors).max())


def tables(part: Part, roles: Roles) -> Iterator[tuple[str, Tensor]]:
    """Yield place and values of each tensor of numbers that enters the network, where there are enough samples."""
    for place in sorted(roles.inputs):
        values = part.of(place)
        if values is None or len(values) < LEAST or values.ndim < 2 or not values.is_floating_point():
            continue
        if values.isfinite().all():
            yield place, values
