import math

import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from training_checklist.instruments import (
    LEAST,
    MOST,
    Data,
    Example,
    Regression,
    Split,
    differ,
    go_along,
    normal,
    numbers_of_targets,
    on_datasets,
    part,
    scale_of,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    roles, train = data.roles, data.train
    if roles.classes is not None:
        raise CannotJudge("targets are labels, and no numbers")
    theirs = numbers_of_targets(part(data, split), roles)
    for name, values in numbers_of_targets(part(data, train), roles).items():
        own, held = (each[each.isfinite()] for each in (values, theirs.get(name, values[:0])))
        one, two = scale_of(own[:, None]), scale_of(held[:, None])
        if one is None or two is None:
            continue
        steps, low, high = own.diff(), float(own.min()), float(own.max())
        # Equal neighbours tell no order, nor do a few samples.
        ordered = bool((steps > 0).all() or (steps < 0).all()) and len(own) >= LEAST
        if ordered and not is_series(data) and not low <= two.mean <= high:
            yield Hit(
                f"targets of {train.name} rise from one sample to the next, from {low:.3g} to {high:.3g}, and "
                f"those of {split.name} lie beyond, with mean {two.mean:.3g}",
                split.place,
                "samples were sorted by their target before they were split: what is validated was never learned",
                Fix("split by a permutation of the samples"),
            )
        elif differ(one, two, limits.max_target_shift, limits.max_target_ratio):
            # A deviation alone may be a few rare large targets, which one split has and a small one has not.
            shifted = differ(one, two, limits.max_target_shift, math.inf)
            yield Hit(
                f"targets of {train.name} have mean {one.mean:.3g} and std {one.std:.3g}, those of {split.name} "
                f"{two.mean:.3g} and {two.std:.3g}",
                split.place,
                severity=None if shifted else WARNING,
            )


def is_series(data: Data) -> bool:
    """Whether inputs, too, go on from one sample to the next, as the windows of a sum that grows."""
    own = part(data, data.train)
    inputs = [values for place in sorted(data.roles.inputs) if (values := own.of(place)) is not None]
    rows = [each.flatten(1)[:, :MOST] for each in inputs if each.is_floating_point() and each.ndim > 1]
    return bool(rows) and all(map(go_along, rows))


def scaled(factor: float = 1.0, shift: float = 0.0) -> Example:
    inputs, targets = normal(500, 8), normal(500, 1, seed=1)
    return on_datasets(
        lambda: TensorDataset(inputs, targets),
        lambda: TensorDataset(inputs, factor * targets + shift),
        module=Regression,
    )


def in_order(sign: int = 1, shuffled: bool = False, first: int = 401) -> Example:
    """Train on targets up to 400, and hold out those from `first` on."""

    def numbers(values: Tensor) -> TensorDataset:
        return TensorDataset(normal(len(values), 8), sign * values[:, None].float())

    order = torch.randperm if shuffled else torch.arange
    return on_datasets(
        lambda: DataLoader(numbers(order(400)), 16),
        lambda: numbers(torch.arange(first, first + 100)),
        module=Regression,
    )


def growing() -> Example:
    """Predict what follows eight numbers of a sum that grows, and hold out what comes last."""

    def of(part: slice) -> TensorDataset:
        windows = torch.arange(500.0).sqrt().unfold(0, 9, 1)[part]
        return TensorDataset(windows[:, :8], windows[:, 8:])

    return on_datasets(lambda: DataLoader(of(slice(400)), 16), lambda: of(slice(400, None)), module=Regression)


PROBE = Probe(
    question="Do the targets of a regression have the same scale and range in all splits?",
    why="the network learns to answer on one scale and is held against another",
    may_be_wrong="targets that are split by time may grow from one split to the next, as prices do",
    fix=Fix("let the targets of all splits go through the same transform, with the training set's statistics"),
    detect=detect,
    faulty=scaled(shift=4.0),
    also_faulty=(in_order(), in_order(sign=-1)),
    healthy=scaled(shift=1.7),
    also_healthy=(in_order(shuffled=True), in_order(first=200), growing()),
    thresholds={
        "max_target_shift": Threshold(
            2.0,
            "deviations between the means, beyond drift and error: beyond what most of training has seen. Of 15,000 "
            "random splits of 60 and 512 samples, normal, lognormal, Student's t and Pareto, none is so far apart",
        ),
        "max_target_ratio": Threshold(
            4.0,
            "between standard deviations, and between consecutive parts of a split; only a warning: none of these "
            "splits has it, but 145 of 3,000 where one target in a hundred is 1 and the rest are close to 0",
            faulty=scaled(8.0),
            healthy=scaled(2.5),
        ),
    },
)
