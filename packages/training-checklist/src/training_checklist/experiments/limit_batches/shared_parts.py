"""Parts that samples of two splits have in common, such as days of windows and corners of tiles that overlap."""

import torch
from torch import Tensor

from training_checklist.evidence.shared import SharedParts
from training_checklist.lab.data import Part
from training_checklist.lab.roles import Roles

SHORTEST = 4  # numbers in a row
CHANCE = 1e-4  # that any of the runs that are compared is the same by chance
RUNS = 64  # of a held-out sample that are looked for
MOST = 2**24  # numbers of the training set that are looked at, 128 MiB of fingerprints
FACTOR = 6364136223846793005  # of a linear congruential generator (Knuth, MMIX): neighbours do not cancel out
COUNTED = 20_000  # values by which it is estimated how many different ones there are
# Share of values that differ: windows that overlap by nine tenths have each ten times. Pixels of 8 bits have 256 among
# 20,000, and strokes of them are the same by chance.
DIFFERENT = 0.1


def shared_parts(own: Part, other: Part, roles: Roles) -> list[SharedParts]:
    """Look for runs of numbers of held-out samples in training samples.

    What is compared with answers must be new; what enters the network only where it is an image: the past of a series
    may be known.
    """
    found = []
    for place in sorted(own.values.keys() & other.values.keys()):
        known, held = rows(own.values[place]), rows(other.values[place])
        is_image = own.values[place].ndim >= 4 and place in roles.inputs
        is_series = own.values[place].ndim <= 3 and place in roles.compared
        if not (is_image or is_series) or known is None or held is None or known.shape[1:] != held.shape[1:]:
            continue
        parts = compare(known, held)
        if parts is not None:
            found.append(SharedParts(place, len(held), *parts, other.split.place))
    return found


def rows(values: Tensor) -> Tensor | None:
    """Return floating-point values as (N, rows, numbers in a row), along time or an image's last dimension."""
    if not values.is_floating_point() or values.ndim < 2 or not values.isfinite().all():
        return None
    values = values.float()
    values = values.transpose(1, 2) if values.ndim == 3 else values
    return values.reshape(len(values), -1, values.shape[-1])


def compare(known: Tensor, held: Tensor) -> tuple[int, int] | None:
    """Return how many of `held` have a run of `known`, and how long the runs are; None where chance makes those."""
    known = known[: max(1, MOST // known[0].numel())]
    sample = known.flatten()
    sample = sample[torch.linspace(0, len(sample) - 1, min(COUNTED, len(sample))).long()]
    values, counts = sample.unique(return_counts=True)
    filling = values[counts.argmax()]  # such as 0 where nothing is: no run that has it counts
    if len(values) < DIFFERENT * int((sample != filling).sum()):
        return None
    width = known.shape[-1]
    pairs = float(known.shape[0] * known.shape[1] * width) * float(len(held) * RUNS)
    length = next((n for n in range(SHORTEST, width + 1) if pairs / len(values) ** n < CHANCE), None)
    if length is None:
        return None
    keys, theirs = fingerprints(known, length, filling), fingerprints(held, length, filling)
    stride = max(1, theirs.shape[1] // RUNS)
    there = torch.isin(theirs[:, ::stride], keys[keys != 0].unique()) & (theirs[:, ::stride] != 0)
    return int(there.any(1).sum()), length


def fingerprints(values: Tensor, length: int, filling: Tensor) -> Tensor:
    """Return (N, runs): a number for each run of `length`, 0 for those that hold `filling` or hardly change."""
    bits = values.contiguous().view(torch.int32).long()
    windows = bits.unfold(-1, length, 1)
    keys = torch.zeros(windows.shape[:-1], dtype=torch.int64)
    for index in range(length):
        keys = keys * FACTOR + windows[..., index] + 1
    changes = (windows[..., 1:] != windows[..., :-1]).sum(-1) >= length // 2
    full = (values != filling).unfold(-1, length, 1).all(-1)
    return torch.where(changes & full, keys, 0).flatten(1)
