"""The numbers in batches."""

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
