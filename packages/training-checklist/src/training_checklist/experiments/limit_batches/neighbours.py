"""Samples that training reads one after the other."""

import torch
from torch import Tensor

from training_checklist.engines.splits import Split
from training_checklist.evidence.loading import Neighbours
from training_checklist.experiments.limit_batches.roles import Roles
from training_checklist.experiments.limit_batches.samples import load
from training_checklist.lightning import Trainer

RUNS = 32  # of samples that follow one another, from all over the training set
LENGTH = 4  # samples in each of them
CATEGORIES = 64  # codes of one column


def neighbours(split: Split, roles: Roles, trainer: Trainer, until: float) -> Neighbours | None:
    """Hold samples that follow one another against those from elsewhere, where training reads them in order."""
    if split.samples < RUNS * LENGTH or (split.loader.batch_size or 0) < LENGTH:
        return None
    starts = [run * (split.samples - LENGTH) // (RUNS - 1) for run in range(RUNS)]
    part = load(split, [start + step for start in starts for step in range(LENGTH)], roles, trainer, until)
    if len(part.indices) != RUNS * LENGTH:
        return None
    shares = {}
    # Labels have a rule of their own.
    target = {roles.target} - {None} if roles.classes is None else set()
    for place in sorted(roles.inputs | target):
        numbers = numbers_of(part.of(place))
        share = None if numbers is None else share_between(numbers.reshape(RUNS, LENGTH, -1))
        shares |= {} if share is None else {place: share}
    where = split.place.beside(note=f"sampler {split.sampler} over {split.place.note}")
    return Neighbours(split.sampler, shares, RUNS * LENGTH, where)


def numbers_of(values: Tensor | None) -> Tensor | None:
    """Return (N, numbers), of one column of codes a number for each code; None of what holds neither."""
    if values is None or not bool(values.isfinite().all()):
        return None
    if values.is_floating_point():
        return values.reshape(len(values), -1).double()
    if values.numel() != len(values):
        return None
    codes, which = values.flatten().unique(return_inverse=True)
    return torch.nn.functional.one_hot(which, len(codes)).double() if len(codes) <= CATEGORIES else None


def share_between(groups: Tensor) -> float | None:
    """Return the share of the variance of (G, n, numbers) that lies between groups; None where nothing varies.

    It is the intraclass correlation of the first kind (Shrout and Fleiss 1979): 0 of groups that are drawn by chance.
    """
    number, size = groups.shape[:2]
    means = groups.mean(1)
    between = size * float((means - means.mean(0)).square().sum()) / (number - 1)
    within = float((groups - means[:, None]).square().sum()) / (number * (size - 1))
    whole = between + (size - 1) * within
    return (between - within) / whole if whole > torch.finfo(groups.dtype).tiny else None
