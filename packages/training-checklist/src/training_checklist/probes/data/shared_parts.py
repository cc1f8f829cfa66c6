import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, Regression, Split, normal, on_datasets, part
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out

SHORTEST = 4  # numbers in a row
RUNS = 64  # of a held-out sample that are looked for
MOST = 2**24  # numbers of the training set that are looked at, 128 MiB of fingerprints
FACTOR = 6364136223846793005  # of a linear congruential generator (Knuth, MMIX): neighbours do not cancel out
COUNTED = 20_000  # values by which it is estimated how many different ones there are


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    """Look for runs of numbers of held-out samples in training samples.

    What is compared with answers must be new; what enters the network only where it is an image: the past of a series
    may be known.
    """
    one, two, roles = part(data, data.train).values, part(data, split).values, data.roles
    for place in sorted(one.keys() & two.keys()):
        known, held = rows(one[place]), rows(two[place])
        is_image = one[place].ndim >= 4 and place in roles.inputs
        is_series = one[place].ndim <= 3 and place in roles.compared
        if not (is_image or is_series) or known is None or held is None or known.shape[1:] != held.shape[1:]:
            continue
        shared, length = compare(known, held, limits) or (0, 0)
        if shared > limits.max_shared_parts * len(held):
            yield Hit(
                f"{shared} of {len(held)} samples that were looked at have parts of training samples in {place}: "
                f"{length} numbers in a row, or more, the same to the last bit",
                split.place.beside(note=place),
            )


def rows(values: Tensor) -> Tensor | None:
    """Return floating-point values as (N, rows, numbers in a row), along time or an image's last dimension."""
    if not values.is_floating_point() or values.ndim < 2 or not values.isfinite().all():
        return None
    values = values.float()
    values = values.transpose(1, 2) if values.ndim == 3 else values
    return values.reshape(len(values), -1, values.shape[-1])


def compare(known: Tensor, held: Tensor, limits: Limits) -> tuple[int, int] | None:
    """Return how many of `held` have a run of `known`, and how long the runs are; None where chance makes those."""
    known = known[: max(1, MOST // known[0].numel())]
    sample = known.flatten()
    sample = sample[torch.linspace(0, len(sample) - 1, min(COUNTED, len(sample))).long()]
    values, counts = sample.unique(return_counts=True)
    filling = values[counts.argmax()]  # such as 0 where nothing is: no run that has it counts
    if len(values) < limits.different_values * int((sample != filling).sum()):
        return None
    width = known.shape[-1]
    pairs = float(known.shape[0] * known.shape[1] * width) * float(len(held) * RUNS)
    length = next((n for n in range(SHORTEST, width + 1) if pairs / len(values) ** n < limits.max_same), None)
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


def with_duplicates(number: int, of: int, train: int = 160) -> Example:
    """Hold out samples of which so many have the target of a training sample."""
    inputs, targets = (normal(train, 8), normal(of, 8, seed=1)), (normal(train, 4), normal(of, 4, seed=1))
    targets[1][:number] = targets[0][:number]
    train, held = (TensorDataset(*each) for each in zip(inputs, targets, strict=True))
    return on_datasets(lambda: train, lambda: held, module=Regression)


def images(shades: int) -> Example:
    """Hold out images of the training set, whose 1,280 pixels have so many shades."""
    inputs = normal(160, 1, 1, 8).flatten().argsort().view(160, 1, 1, 8) % shades / shades
    train, held = (TensorDataset(inputs, normal(160, 4, seed=seed)) for seed in range(2))
    return on_datasets(lambda: train, lambda: held, module=Regression)


PROBE = Probe(
    question="Are validation and test samples free of parts of training samples (no overlapping windows or tiles)?",
    why="windows or tiles that overlap were split at random: the network knows a part of the answers by heart, and its "
    "metrics there say nothing about new data",
    fix=Fix("split the recordings or scenes first, by time or by place, and cut each part into windows or tiles then"),
    detect=detect,
    faulty=with_duplicates(2, of=100),
    healthy=with_duplicates(1, of=200),
    thresholds={
        "max_same": Threshold(
            1e-4,
            "probability that any of the runs that are compared is the same by chance",
            factor=10.0,
            healthy=with_duplicates(50, of=100, train=60),
        ),
        "different_values": Threshold(
            0.1,
            "of the numbers: windows that overlap by nine tenths have each ten times; pixels of 8 bits have 256 among "
            "20,000, and strokes of them are the same by chance",
            faulty=images(shades=250),
            healthy=images(shades=64),
        ),
        "max_shared_parts": Threshold(
            0.01, "share of held-out samples, as for whole ones (data/shared-samples): exact copies are rarer than that"
        ),
    },
)
