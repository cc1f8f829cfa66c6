"""Samples from all over a split, as the network gets them, and what they tell without labels or rules."""

import time
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.replay import seed_all
from training_checklist.evidence.labels import SameInputs
from training_checklist.evidence.values import NotFinite, Scale, SplitTargets, TargetCopies
from training_checklist.finding import Place
from training_checklist.lab.data import LEAST, Part, load
from training_checklist.lab.roles import Roles
from training_checklist.lab.stored import are_unlikely_to_repeat, digest
from training_checklist.lightning import Trainer, isolate_rng

BLOCKS = 4  # consecutive parts of a split, of at least 50 samples / 4
MOST_NUMBERS = 8  # of a target: of a series or an image, neighbours tell each
MASKS = 20  # different values: masks and weights of classes have fewer


def not_finite(leaf: Tensor, name: str, place: Place, indices: list[int] | None = None) -> NotFinite:
    """Count what is not finite in a tensor of a batch; `indices` into the dataset of its samples, where known."""
    total = len(leaf) if leaf.ndim else 1
    wrong = ~leaf.isfinite()
    if not wrong.any():
        return NotFinite(name, "", 0, 0, total, place)
    positions = wrong.nonzero()[:, 0].unique().tolist() if leaf.ndim else [0]
    kind = "NaN" if leaf.isnan().any() else "Inf"
    sample = positions[0] if indices is None else indices[positions[0]]
    return NotFinite(name, kind, int(wrong.sum()), len(positions), total, place.beside(sample=sample))


def same_inputs(part: Part, roles: Roles, trainer: Trainer, until: float) -> SameInputs | None:
    """Load training samples one by one, with the same random numbers each: equal inputs are one sample then."""
    first: dict[int, tuple[int, Any]] = {}
    rows, contradicting = [], []
    if roles.target is None or roles.input is None:
        return None
    with isolate_rng():
        for index in part.indices:
            if time.monotonic() > until:
                break
            seed_all()
            one = load(part.split, [index], roles, trainer, until)
            row, target = one.of(roles.input), one.of(roles.target)
            if row is None or target is None:
                return None
            rows.append(row[0])
            other, known = first.setdefault(digest(row[0]), (index, target))
            if not torch.equal(known, target):
                contradicting.append((index, other))
    if len(rows) < LEAST:
        return None
    repeatable = not are_unlikely_to_repeat(rows)
    pair = contradicting[0] if contradicting else (0, 0)
    return SameInputs(len(rows), len(contradicting), len(first), repeatable, pair, part.split.place)


def split_targets(own: Part, other: Part, roles: Roles) -> list[SplitTargets]:
    """Return the scales of a regression's targets in two splits."""
    theirs, found = numbers_of_targets(other, roles), []
    for name, values in numbers_of_targets(own, roles).items() if roles.classes is None else ():
        train, held = (each[each.isfinite()] for each in (values, theirs.get(name, values[:0])))
        one, two = scale_of(own.split.name, train[:, None]), scale_of(other.split.name, held[:, None])
        steps = train.diff()
        # Equal neighbours tell no order, nor do a few samples.
        ordered = bool((steps > 0).all() or (steps < 0).all()) and len(train) >= LEAST
        if one is not None and two is not None:
            found.append(SplitTargets(one, two, float(train.min()), float(train.max()), ordered, other.split.place))
    return found


def target_copies(part: Part, roles: Roles) -> list[TargetCopies]:
    """Hold each column of the inputs, (N, columns), against each number of the target, where that is known."""
    found = []
    for name, target in numbers_of_targets(part, roles).items():
        known, columns = target.isfinite(), {}
        if int(known.sum()) < LEAST or not target[known].std() > 0:
            continue
        target = target[known].double().unsqueeze(1)
        target = target - target.mean()
        for place in sorted(roles.inputs - {roles.target} - roles.compared):
            values = part.of(place)
            if values is None or values.ndim != 2 or not values.is_floating_point():
                continue
            values = values[known].double()
            values = values - values.mean(0)
            alike = (values * target).sum(0) ** 2 / (values.square().sum(0) * target.square().sum()).clamp_min(1e-300)
            columns |= {f"{place}[:, {index}]": 1 - float(share) for index, share in enumerate(alike)}
        if columns:
            found.append(TargetCopies(name, columns, len(target), part.split.place))
    return found


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


def one_number(targets: Tensor | None) -> Tensor | None:
    """Return targets as (N, 1), None where a sample has another number of them, or one that is not finite."""
    if targets is None or targets.numel() != len(targets) or not targets.is_floating_point():
        return None
    return targets.reshape(-1, 1) if targets.isfinite().all() else None


def scale_of(name: str, inputs: Tensor | None) -> Scale | None:
    """Return mean and std of the inputs of a split, and of consecutive parts of it."""
    if inputs is None or len(inputs) < LEAST or not inputs.is_floating_point() or inputs.ndim < 2:
        return None
    inputs = inputs.float()
    error = float(inputs.flatten(1).mean(1).std() / len(inputs) ** 0.5)
    blocks = inputs.chunk(BLOCKS)
    means, stds = ([float(of(block)) for block in blocks] for of in (torch.mean, torch.std))
    return Scale(name, float(inputs.mean()), float(inputs.std()), error, means, stds)
