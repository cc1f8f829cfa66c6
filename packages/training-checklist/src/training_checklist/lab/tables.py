"""The columns of tables, and the channels of images and sequences."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from training_checklist.engines.chance import CHANCE, at_most
from training_checklist.engines.splits import Split
from training_checklist.lab.data import LEAST, Data, Part, load, part
from training_checklist.lab.shared import once
from training_checklist.probe import CannotJudge

MOST = 64  # columns of which each is held against each
ORDERS = 16  # in which the turns of a column are counted
ROWS = 50_000  # of a table that is read as a whole
# Of the standard error of a mean: what chance brings so near to 0 is one column in 125, and its deviation as near to 1
# one of these in 125.
EXACT = 0.01
LEAST_BLOCK = 10  # rows that are standardised together; of fewer, chance makes too many so


def tables(data: Data, own: Part) -> Iterator[tuple[str, Tensor]]:
    """Yield place and values of each tensor of numbers that enters the network, where there are enough samples."""
    for place in sorted(data.roles.inputs):
        values = own.of(place)
        if values is None or len(values) < LEAST or values.ndim < 2 or not values.is_floating_point():
            continue
        if values.isfinite().all():
            yield place, values


@once
def whole_table(data: Data, split: Split) -> Part:
    """Return all samples of a split where they are rows of a table; some where they are not, or too many."""
    some = part(data, split)
    if not any(values.ndim == 2 for _, values in tables(data, some)) or split.samples > ROWS:
        return some
    whole = load(split, list(range(split.samples)), data.roles, data.trainer, data.until)
    return whole if len(whole.indices) == split.samples else some  # time was too short


def go_along(columns: Tensor) -> bool:
    """Whether all columns of (N, columns) that vary turn more rarely from row to row than in any order by chance.

    So powers of a number do in its order, and series in that of time; what was sorted by one of them does not.
    """
    columns = columns[:, (columns != columns[0]).any(0)].double()
    generator, places = torch.Generator().manual_seed(0), len(columns) - 2
    orders = [torch.randperm(len(columns), generator=generator) for _ in range(ORDERS)]
    usual = torch.stack([turns(columns[order]) for order in orders]).double().mean(0) / places
    pairs = zip(turns(columns).tolist(), usual.tolist(), strict=True)
    return bool(columns.numel()) and all(at_most(own, places, rate) < CHANCE for own, rate in pairs)


def turns(columns: Tensor) -> Tensor:
    steps = columns.diff(dim=0).sign()
    return (steps[1:] * steps[:-1] < 0).sum(0)


def shift(one: tuple[Tensor, Tensor], two: tuple[Tensor, Tensor]) -> float:
    """Return how far two columns are apart, in standard errors of the difference, of their means and these errors."""
    errors = torch.hypot(one[1], two[1]).clamp_min(1e-12)
    return float(((one[0] - two[0]).abs() / errors).max())


@dataclass
class Scaling:
    """Columns of which mean and deviation are 0 and 1, or least and largest value, over the samples of some splits.

    Args:
        standard: how many columns have mean 0 and deviation 1, over the samples of "train", of "other", of "both", or
            of "all" splits, where there are more.
        ranged: how many reach from 0 to 1 and no further, likewise.
        columns: how many there are that have more than two values.
    """

    place: str
    standard: dict[str, int]
    ranged: dict[str, int]
    columns: int


@once
def scaling(data: Data, split: Split) -> list[Scaling]:
    """See which samples tables and targets were scaled by, where both splits are there as a whole.

    Raises:
        CannotJudge: they are not.
    """
    own, other = whole_table(data, data.train), whole_table(data, split)
    if any(len(each.indices) != each.split.samples for each in (own, other)):
        raise CannotJudge("not all samples of both splits were looked at")
    further = [whole_table(data, each) for each in data.held_out if each is not split]
    further = [each for each in further if len(each.indices) == each.split.samples]
    known = [(place, values) for place, values in tables(data, own) if values.ndim == 2]
    target = own.of(data.roles.target)
    if target is not None and target.numel() == len(target) and target.is_floating_point():
        known.append((data.roles.target, target))
    found = []
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
        if not any(kept) or is_scaled_by_blocks(two[:, kept][:, :MOST]):
            continue
        of = {"train": one[:, kept], "other": two[:, kept], "both": both[:, kept]}
        others = [each.of(place) for each in further]
        if others and all(each is not None and each.shape[1:] == held.shape[1:] for each in others):
            of["all"] = torch.cat([both, *(each.reshape(len(each), -1).double() for each in others)])[:, kept]
        standard = {name: int(is_standard(each).sum()) for name, each in of.items()}
        ranged = {name: int(((each.amin(0) == 0) & (each.amax(0) == 1)).sum()) for name, each in of.items()}
        found.append(Scaling(place, standard, ranged, sum(kept)))
    return found


def is_scaled_by_blocks(values: Tensor) -> bool:
    """Whether the first rows of (N, columns), some of them, have mean 0 and deviation 1: each day or patient has."""
    numbers = torch.arange(1, len(values) + 1)[:, None]
    means, squares = values.cumsum(0) / numbers, values.square().cumsum(0) / numbers
    variances = (squares - means.square()).clamp_min(0)
    near = EXACT / numbers.sqrt()
    deviations = (variances.sqrt(), (variances * numbers / (numbers - 1).clamp_min(1)).sqrt())
    one = torch.stack([(each - 1).abs() < near for each in deviations]).any(0)
    standard = (((means.abs() < near) & one).double().mean(1) > 0.5)[LEAST_BLOCK - 1 : len(values) // 2]
    return bool(standard.any())


def is_standard(values: Tensor) -> Tensor:
    """Return for each column of (N, columns) whether its mean is 0 and its deviation 1, by either definition."""
    near = EXACT / len(values) ** 0.5
    deviations = [values.std(0, correction=correction) for correction in (0, 1)]
    one = torch.stack([(each - 1).abs() < near for each in deviations]).any(0)
    return (values.mean(0).abs() < near) & one
