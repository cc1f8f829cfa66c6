"""The columns of tables, and the channels of images and sequences."""

from collections.abc import Iterator

import torch
from torch import Tensor

from training_checklist.evidence.columns import Column, Columns, ColumnsOfSplits, FittedTo
from training_checklist.experiments.limit_batches.roles import Roles
from training_checklist.experiments.limit_batches.samples import LEAST, Part, load, one_number
from training_checklist.lightning import Trainer

MOST = 64  # columns of which each is held against each
ROWS = 50_000  # of a table that is read as a whole
# Of the standard error of a mean: what chance brings so near to 0 is one column in 125, and its deviation as near to 1
# one of these in 125.
EXACT = 0.01
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


def fitted_to(own: Part, other: Part, roles: Roles, trainer: Trainer, until: float) -> list[FittedTo]:
    """See which samples a table was scaled by, where both splits can be read as a whole."""
    small = [(place, values) for place, values in tables(own, roles) if values.ndim == 2]
    target = one_number(own.of(roles.target))
    small += [] if target is None or roles.target is None else [(roles.target, target)]
    if not small or any(part.split.samples > ROWS for part in (own, other)):
        return []
    parts = [load(part.split, list(range(part.split.samples)), roles, trainer, until) for part in (own, other)]
    found = []
    for place, _ in small:
        known = [part.of(place) for part in parts]
        if any(each is None or len(each) != part.split.samples for each, part in zip(known, parts, strict=True)):
            continue  # time was too short
        one, two = (each.reshape(len(each), -1).double() for each in known)
        if one.shape[1] != two.shape[1] or min(len(one), len(two)) < LEAST:
            continue
        both = torch.cat([one, two])
        if torch.equal(one.mean(0), two.mean(0)) or not both.isfinite().all():
            continue
        kept = [len(column.unique()) > 2 for column in both.T]
        of = {"train": one[:, kept], "other": two[:, kept], "both": both[:, kept]}
        standard = {name: int(is_standard(values).sum()) for name, values in of.items()}
        ranged = {name: int(((values.amin(0) == 0) & (values.amax(0) == 1)).sum()) for name, values in of.items()}
        where = other.split.place.beside(note=place)
        found.append(FittedTo(other.split.name, standard, ranged, sum(kept), where))
    return found


def is_standard(values: Tensor) -> Tensor:
    """Return for each column of (N, columns) whether its mean is 0 and its deviation 1, by either definition."""
    near = EXACT / len(values) ** 0.5
    deviations = [values.std(0, correction=correction) for correction in (0, 1)]
    one = torch.stack([(each - 1).abs() < near for each in deviations]).any(0)
    return (values.mean(0).abs() < near) & one


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
