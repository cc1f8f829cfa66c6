"""Samples from all over a split, as the network gets them, and what they tell without labels or rules."""

import math
import re
import time
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves
from torch.utils.data import Subset

from training_checklist.engines.batches import leaves
from training_checklist.engines.drawn_indices import content_of
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import seed_all
from training_checklist.engines.splits import CHUNK, Split, splits
from training_checklist.evidence.labels import SameInputs
from training_checklist.evidence.loading import BytesRead, Company, LoaderSize, Order, Reloaded, SetUpAgain
from training_checklist.evidence.values import NotFinite, Scale, SplitTargets, TargetCopies
from training_checklist.experiments.limit_batches.roles import Roles
from training_checklist.experiments.limit_batches.stored_samples import are_unlikely_to_repeat, digest
from training_checklist.finding import Place
from training_checklist.lightning import Trainer, isolate_rng

# Of each set. Two thirds of a pool of up to 10,000 share three of 200 samples or more, of which seldom none is met.
SHARED = 200
SHARED_SECONDS = 3  # of the five that limit_batches takes for samples beyond those of the run
READ = Path("/proc/self/io")  # Linux's count of the bytes that this process has read
BLOCKS = 4  # consecutive parts of a split, of at least 50 samples / 4
LEAST = 50  # samples by which a split is judged: the standard error of a mean is then 1 / 7 of a deviation
TWICE = 64  # samples that are loaded twice
MOST_NUMBERS = 8  # of a target: of a series or an image, neighbours tell each
MASKS = 20  # different values: masks and weights of classes have fewer
TOGETHER = 8  # samples that are loaded together and alone: a collate function mixes all of them, or none


@dataclass
class Part:
    """Samples of a split.

    Args:
        indices: ascending.
        chunks: of each place in the batch, one for each time that some were loaded.
        values: (N, ...) of each place that has one entry for each sample, and one shape.
        rows: of each place that has one entry for each sample, of whatever shape.
    """

    split: Split
    indices: list[int] = field(default_factory=list)
    chunks: dict[str, list[Tensor]] = field(default_factory=dict)
    values: dict[str, Tensor] = field(default_factory=dict)
    rows: dict[str, list[Tensor]] = field(default_factory=dict)

    def of(self, place: str | None) -> Tensor | None:
        return self.values.get(place) if place is not None else None


def load(split: Split, indices: list[int], roles: Roles, trainer: Trainer, until: float) -> Part:
    """Load samples until the clock shows `until`, those that there is time for from all over `indices`."""
    part, numbers = Part(split), []
    chunks = math.ceil(len(indices) / CHUNK)
    spread = [index for start in range(chunks) for index in indices[start::chunks]]
    for chunk, batch in split.fetch(spread, trainer, until) if split.indexable else ():
        found = leaves(batch)
        part.indices += chunk
        numbers.append(len(chunk))
        for place in roles.places:
            if place in found:
                part.chunks.setdefault(place, []).append(found[place].detach().cpu())
    for place, chunks in part.chunks.items():
        one_each = [len(chunk) if chunk.ndim else None for chunk in chunks] == numbers
        if one_each:
            part.rows[place] = [row for chunk in chunks for row in chunk]
        if one_each and len({chunk.shape[1:] for chunk in chunks}) == 1:
            part.values[place] = torch.cat(chunks)
    order = torch.tensor(part.indices).argsort()
    part.rows = {place: [rows[index] for index in order.tolist()] for place, rows in part.rows.items()}
    part.indices = sorted(part.indices)
    part.values = {place: values[order] for place, values in part.values.items()}
    return part


def loader_size(split: Split) -> LoaderSize:
    loader = split.loader
    fixed = split.indexable and (order := split.order()) is not None and order == split.order() == sorted(order)
    batches = pass_on(len, loader) if split.indexable else int(split.samples != 0)
    return LoaderSize(split.stage, split.samples or 0, batches, loader.batch_size, loader.drop_last, fixed, split.place)


def bytes_read(split: Split, until: float) -> BytesRead | None:
    """Load a few samples a second time, and see what the system has read; None where it does not tell."""
    chosen = split.chosen(TOGETHER) if split.indexable else []
    if not chosen or not READ.is_file():
        return None
    with isolate_rng():
        split.items(chosen)
        if time.monotonic() > until:
            return None
        before = read_so_far()
        given = sum(each.nbytes for each in tree_leaves(split.items(chosen)) if isinstance(each, (Tensor, np.ndarray)))
        read = read_so_far() - before
    place = split.place_of("__getitem__")
    return BytesRead(len(chosen), read // len(chosen), given // len(chosen), place)


def read_so_far() -> int:
    return int(re.search(rb"rchar: (\d+)", READ.read_bytes())[1])


def set_up_again(train: Split, source: Any) -> SetUpAgain | None:
    """Hold the training set of the run against the one that its source has now."""
    now = splits("train", pass_on(source.train_dataloader))
    if len(now) != 1 or not train.indexable:
        return None
    known = content_of(train.dataset)
    steady = known is not None and known == content_of(train.dataset)
    line = of_function(type(source).setup)
    place = train.place.beside(file=line.file, line=line.line, function=line.function)
    differs = known != content_of(now[0].dataset) if steady else None
    return SetUpAgain(differs, place, bool(differs) and not share_a_sample(train.dataset, now[0].dataset))


def share_a_sample(one: Any, other: Any) -> bool:
    """Whether two sets have a sample in common, as splits of one pool have; true, too, where that takes too long."""
    if isinstance(one, Subset) and isinstance(other, Subset):
        return True
    until, found = time.monotonic() + SHARED_SECONDS, []
    for dataset in (one, other):
        count = len(dataset)
        keys = sorted({count * part // SHARED for part in range(SHARED)})
        found.append({content_of(dataset, [key]) for key in keys if time.monotonic() < until} - {None})
    return time.monotonic() > until or not all(found) or not found[0].isdisjoint(found[1])


def order_of(split: Split) -> Order | None:
    drawn = split.order()
    if drawn is None:
        return None
    first = set(drawn[: len(drawn) // 2])
    distinct = set(drawn)
    ascending = all(sooner <= later for sooner, later in pairwise(drawn))
    plain = split.loader.batch_size is not None
    place = split.place.beside(note=f"sampler {split.sampler} over {split.place.note}")
    return Order(
        split.sampler, split.samples, len(drawn), len(distinct), len(distinct - first), ascending, plain, place
    )


def reloaded(split: Split, roles: Roles, trainer: Trainer, until: float) -> Reloaded | None:
    """Load some samples of a split twice."""
    chosen = split.chosen(TWICE) if split.indexable else []
    one, again = (load(split, chosen, roles, trainer, until) for _ in range(2))
    first, second = one.of(roles.input), again.of(roles.input)
    if first is None or second is None or not first.is_floating_point() or first.shape[1:] != second.shape[1:]:
        return None
    number = min(len(first), len(second))
    differ = differing(first[:number], second[:number])
    targets = one.of(roles.target), again.of(roles.target)
    known = targets[0] is not None and targets[1] is not None
    random = not known or bool(differing(targets[0][:number], targets[1][:number]).any())
    larger = known and first[0].numel() > targets[0][0].numel()
    place = split.place.beside(sample=chosen[int(differ.nonzero()[0, 0])]) if differ.any() else split.place
    return Reloaded(number, int(differ.sum()), random, roles.classes is not None, larger, place)


def differing(one: Tensor, two: Tensor) -> Tensor:
    """Return for each sample whether it differs by more than another order of the same additions makes."""
    return ~torch.isclose(one, two, rtol=1e-4, atol=1e-5, equal_nan=True).reshape(len(one), -1).all(1)


def company(split: Split, roles: Roles, trainer: Trainer, until: float) -> list[Company]:
    """Load a few samples together and alone, of a split that gives the same each time."""
    chosen = split.chosen(TOGETHER) if split.indexable else []
    if len(chosen) < TOGETHER:
        return []
    together, again = (load(split, chosen, roles, trainer, until).values for _ in range(2))
    alone = [load(split, [index], roles, trainer, until).values for index in chosen]
    found = []
    for place in sorted(roles.inputs & together.keys() & again.keys()):
        rows = together[place]
        steady = again[place].shape == rows.shape and not differing(rows, again[place]).any()
        if rows.is_floating_point() and steady and all(place in each for each in alone):
            differ = sum(not any(is_within(each[place][0], row) for row in rows) for each in alone)
            found.append(Company(place, len(chosen), differ, split.place.beside(note=place)))
    return found


def is_within(sample: Tensor, padded: Tensor) -> bool:
    """Whether a sample stands at the beginning or the end of one that may be padded."""
    if sample.ndim != padded.ndim or any(own > other for own, other in zip(sample.shape, padded.shape, strict=True)):
        return False
    first = tuple(slice(0, size) for size in sample.shape)
    last = tuple(slice(other - own, other) for own, other in zip(sample.shape, padded.shape, strict=True))
    return any(not bool(differing(sample[None], padded[where][None]).any()) for where in (first, last))


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
