"""The numbers in batches."""

import math
from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place

TWICE = "they were normalised twice"


@dataclass
class Form:
    """A tensor of a batch, without its values."""

    loader: str
    batch: int
    leaf: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"

    @property
    def place(self) -> Place:
        return Place(loader=self.loader, batch=self.batch, note=self.leaf)


@dataclass
class Forms:
    """The tensors of all batches that enter the network or the criterion.

    Args:
        seen: in the order of the run; the training set's are of "train_dataloader".
        inputs: places in the batch of those that enter the network.
    """

    seen: list[Form]
    inputs: frozenset[str]


@dataclass
class NotFinite:
    """How many values are not finite in what enters the network or the criterion.

    Args:
        leaf: place in the batch.
        of: samples that were looked at.
    """

    leaf: str
    kind: str
    values: int
    samples: int
    of: int
    place: Place = NOWHERE


@dataclass
class LabelRange:
    """Labels held against the outputs of the network.

    Args:
        outside: labels that have no output, each once.
        count: how many samples have one of them.
        of: samples that were looked at.
        classes: outputs.
    """

    outside: list[int]
    count: int
    of: int
    classes: int
    place: Place = NOWHERE


@dataclass
class TokenRange:
    """Indices held against the table of an embedding; `outside`, `count` and `of` as of labels."""

    outside: list[int]
    count: int
    of: int
    rows: int
    leaf: str
    place: Place = NOWHERE


@dataclass
class Entering:
    """The range, over all batches of the run, of what enters a layer that multiplies it with weights.

    Args:
        largest: whether it is the largest input of the network.
        columns: mean and standard deviation of each number that a linear or recurrent layer takes of a sample or step;
            none of layers that take more of them than a table has.
    """

    low: float
    high: float
    largest: bool = True
    place: Place = NOWHERE
    columns: list[tuple[float, float]] = field(default_factory=list)


@dataclass
class InputScale:
    """The values that enter the first layer which multiplies them with weights.

    Args:
        pixels: whether they are images of 8 bits: the dataset keeps such, or different values are as few as those have.
        claim: mean and standard deviation of pixels in 0..1 that the project normalises with; None: it names none.
        levels: different values in one sample, the one that has most; 0 where it was not counted.
        stored: likewise, as the dataset keeps it.
    """

    mean: float
    std: float
    low: float
    high: float
    pixels: bool
    claim: tuple[float, float] | None = None
    place: Place = NOWHERE
    levels: int = 0
    stored: int = 0

    def looks(self, mean: float, std: float) -> str:
        """Return what may have been done instead of normalising once with `mean` and `std`, "" where that fits best.

        Images of any contents have pixels near black and near white, so that their range shows the steps taken.
        """
        ways = {  # back to pixels of 0..1
            "": lambda x: x * std + mean,
            "they were never normalised": lambda x: x,
            "pixels of 0..255 were never normalised": lambda x: x / 255,
            TWICE: lambda x: (x * std + mean) * std + mean,
            "pixels of 0..255 were normalised like those of 0..1": lambda x: (x * std + mean) / 255,
            "pixels were divided by 255 twice": lambda x: (x * std + mean) * 255,
        }
        return min(ways, key=lambda way: abs(ways[way](self.low)) + abs(ways[way](self.high) - 1))

    def __str__(self) -> str:
        return f"mean {self.mean:.3g} and std {self.std:.3g} (from {self.low:.3g} to {self.high:.3g})"


@dataclass
class Scale:
    """The inputs of one split.

    Args:
        error: standard error of the mean.
        block_means: of consecutive parts of the split, in the order of the dataset.
        block_stds: likewise.
    """

    name: str
    mean: float
    std: float
    error: float
    block_means: list[float] = field(default_factory=list)
    block_stds: list[float] = field(default_factory=list)


@dataclass
class SplitScales:
    """The inputs of the training set and of another split."""

    train: Scale
    other: Scale
    place: Place = NOWHERE

    def differ(self, max_shift: float, max_ratio: float) -> bool:
        """Whether means are apart by more deviations, or deviations by a greater factor, beyond drift and error."""
        train, other = self.train, self.other
        largest, smallest = max(train.std, other.std), max(min(train.std, other.std), 1e-12)
        # Data that drift from one part of a split to the next may drift as far again to the next split.
        drift = max(spread(train.block_means), spread(other.block_means)) + 4 * (train.error + other.error)
        growth = max(ratio(train.block_stds), ratio(other.block_stds))
        shifted = abs(train.mean - other.mean) - drift > max_shift * largest
        return shifted or largest / smallest > max_ratio * growth


def spread(values: list[float]) -> float:
    return max(values) - min(values) if values else 0.0


def ratio(values: list[float]) -> float:
    return max(values) / min(values) if values and min(values) > 0 else 1.0 if not values else math.inf


@dataclass
class SplitTargets:
    """The targets of a regression, one number for each sample, in the training set and in another split.

    Args:
        low: least target of the training set.
        high: largest.
        ordered: whether they rise, or fall, from one sample of the dataset to the next.
    """

    train: Scale
    other: Scale
    low: float
    high: float
    ordered: bool = False
    place: Place = NOWHERE

    @property
    def scales(self) -> SplitScales:
        return SplitScales(self.train, self.other)


@dataclass
class TargetCopies:
    """How much of the target's variance each column of the inputs leaves, by the column's place in the batch.

    Args:
        target: its place.
    """

    target: str
    columns: dict[str, float]
    samples: int
    place: Place = NOWHERE


@dataclass
class TargetParts:
    """Numbers of a target of which each stands at one place of the inputs, in all samples.

    Args:
        target: its place in the batch.
        numbers: of it, that are not the same in all samples.
        found: places of its numbers, "batch[1][:, 0]", and of the inputs that are them up to scale and shift.
        kinds: different numbers, where the target is one that stands for a thing, such as an item.
    """

    target: str
    numbers: int
    found: list[tuple[str, str]]
    samples: int
    place: Place = NOWHERE
    kinds: int | None = None


@dataclass
class Mask:
    """Zeros and ones for the parts of each sample of a training batch, or how long each sample is.

    Args:
        name: its place in the batch.
        zeros: share of them, None of lengths.
        matters: whether the loss changes with it.
    """

    name: str
    zeros: float | None
    matters: bool
    place: Place = NOWHERE


@dataclass
class Losses:
    """The losses of the run's training batches; `excused`: whether the data have findings that may explain them."""

    values: list[float]
    excused: bool
    place: Place = NOWHERE


@dataclass
class PixelTargets:
    """Targets with a class for each pixel, held against their images as they are, and turned or mirrored.

    Args:
        samples: of the training set; turned: those whose target would fit clearly better turned or mirrored.
        held_out: samples of another split; held_turned: likewise.
        turn: that fits most of them, such as "mirrored left to right".
        place: of the training set.
    """

    samples: int
    turned: int
    held_out: int
    held_turned: int
    turn: str = ""
    place: Place = NOWHERE


@dataclass
class CoarseNumbers:
    """Whole numbers in a type that has not all of them.

    Args:
        name: place in the batch.
        type: "float32".
        largest: of them.
        limit: up to which the type has every whole number.
    """

    name: str
    type: str
    largest: float
    limit: int
    place: Place = NOWHERE
