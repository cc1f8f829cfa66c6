"""The columns of tables, and the channels of images and sequences."""

from collections.abc import Iterator

import torch
from torch import Tensor

from training_checklist.evidence.columns import CodesOfSplits, Column, Columns, ColumnsOfSplits, FittedTo, RowNumbers
from training_checklist.experiments.limit_batches.samples import one_number
from training_checklist.lab.data import LEAST, Part, load
from training_checklist.lab.roles import Roles
from training_checklist.lightning import Trainer

MOST = 64  # columns of which each is held against each
ROWS = 50_000  # of a table that is read as a whole
# Of the standard error of a mean: what chance brings so near to 0 is one column in 125, and its deviation as near to 1
# one of these in 125.
EXACT = 0.01
ROWS_NUMBERED = 200  # of which no two have the same whole number by chance, of as many as there are
OFF_GRID = 0.1  # of a step: what float32 leaves of the steps of 100,000 rows, scaled
SPARSE = 4  # numbers for each row: a part of the rows is held out
OFTEN = 20  # samples of a code, of whose mean the standard error is then known to a sixth
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


def whole_table(part: Part, roles: Roles, trainer: Trainer, until: float) -> Part:
    """Return all samples of a split where they are rows of a table; the same part where they are not, or too many."""
    rows = any(values.ndim == 2 for _, values in tables(part, roles))
    if not rows or part.split.samples > ROWS:
        return part
    whole = load(part.split, list(range(part.split.samples)), roles, trainer, until)
    return whole if len(whole.indices) == part.split.samples else part  # time was too short


def row_numbers(part: Part, roles: Roles) -> list[RowNumbers]:
    """See which columns of a table number its rows, where all of them are there."""
    found = []
    for place, values in tables(part, roles):
        if values.ndim != 2 or len(values) != part.split.samples or len(values) < ROWS_NUMBERED:
            continue
        ordered = values.double().sort(0).values
        gaps = ordered.diff(dim=0)
        steps = gaps / gaps.amin(0).clamp_min(1e-300)
        whole = ((steps - steps.round()).abs() < OFF_GRID).all(0) & (gaps.amin(0) > 0)
        dense = steps.sum(0) < SPARSE * len(values)
        names = [f"{place}[:, {index}]" for index in (whole & dense).nonzero().flatten().tolist()]
        found.append(RowNumbers(names, len(values), values.shape[1], part.split.place.beside(note=", ".join(names))))
    return found


def fitted_to(own: Part, other: Part, roles: Roles) -> list[FittedTo]:
    """See which samples a table was scaled by, where both splits are there as a whole."""
    found = []
    if any(len(part.indices) != part.split.samples for part in (own, other)):
        return found
    known = [(place, values) for place, values in tables(own, roles) if values.ndim == 2]
    target = one_number(own.of(roles.target))
    known += [] if target is None or roles.target is None else [(roles.target, target)]
    for place, values in known:
        held = other.of(place)
        if held is None:
            continue
        one, two = (each.reshape(len(each), -1).double() for each in (values, held))
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


def codes_of_splits(own: Part, other: Part, roles: Roles) -> list[CodesOfSplits]:
    """Hold each code of categories, (N,) or (N, columns), against each of another split's."""
    both = both_described(own, other, roles)
    if both is None:
        return []
    mine, theirs = both
    found = []
    for place in sorted(roles.inputs):
        one, two = own.of(place), other.of(place)
        if one is None or two is None or one.is_floating_point() or one.ndim > 2:
            continue
        if one[0].numel() != two[0].numel():
            continue
        one, two = one.reshape(len(one), -1), two.reshape(len(two), -1)
        for column in range(min(one.shape[1], MOST)):
            first, second = described(one[:, column], mine), described(two[:, column], theirs)
            shifts = {code: {also: shift(a, b) for also, b in second.items()} for code, a in first.items()}
            name = f"{place}[:, {column}]" if own.of(place).ndim == 2 else place
            found.append(CodesOfSplits(other.split.name, name, shifts, other.split.place.beside(note=name)))
    return found


def both_described(own: Part, other: Part, roles: Roles) -> tuple[Tensor, Tensor] | None:
    """Return what goes with each sample of two splits: the columns of its tables, and its target; (N, numbers)."""
    places = [place for place, values in tables(own, roles) if values.ndim == 2]
    places += [roles.target] if roles.target is not None else []
    pairs = [(own.of(place), other.of(place)) for place in places]
    pairs = [(one, two) for one, two in pairs if one is not None and two is not None]
    pairs = [(one, two) for one, two in pairs if one[0].numel() == two[0].numel()]
    if not pairs:
        return None
    sides = zip(*pairs, strict=True)
    mine, theirs = (torch.cat([each.reshape(len(each), -1).double() for each in side], 1) for side in sides)
    return (mine, theirs) if mine.isfinite().all() and theirs.isfinite().all() else None


def described(codes: Tensor, numbers: Tensor) -> dict[int, tuple[Tensor, Tensor]]:
    """Return for each code that stands often enough the means of what goes with it, and their standard errors."""
    found = {}
    for code in codes.unique().tolist():
        rows = numbers[codes == code]
        if len(rows) >= OFTEN:
            found[int(code)] = (rows.mean(0), rows.std(0) / len(rows) ** 0.5)
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
