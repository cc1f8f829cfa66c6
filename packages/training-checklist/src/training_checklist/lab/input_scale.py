"""The values that enter the first layer, beside the mean and std that a project names for the pixels of its images."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from training_checklist.engines.batches import as_array, parts
from training_checklist.engines.splits import Split
from training_checklist.finding import Place
from training_checklist.lab.data import Data
from training_checklist.lab.shared import once
from training_checklist.lab.stored import origin, raw_row
from training_checklist.probe import CannotJudge

DEPTH = 5  # dataset.dataset.transform.transforms[2]
MANY = 100  # items of a container: longer ones are data
SHOWN = 8  # samples that are looked at as they are kept
TWICE = "they were normalised twice"
NEVER = "they were never normalised"


@dataclass
class InputScale:
    """The values that enter the first layer which multiplies them with weights.

    Args:
        pixels: whether they are images of 8 bits: the dataset keeps such, or different values are as few as those have.
        claim: mean and standard deviation of pixels in 0..1 that the project normalises with; None: it names none.
        levels: different values in one sample, the one that has most; 0 where less than half of it enters at once.
        stored: likewise, as the dataset keeps it; 0 where that is unknown.
        altered: whether the step makes more of the images of a batch than normalised ones, as noise does.
    """

    mean: float
    std: float
    low: float
    high: float
    pixels: bool
    claim: tuple[float, float] | None
    place: Place
    levels: int
    stored: int
    altered: bool

    def looks(self, mean: float, std: float) -> str:
        """Return what may have been done instead of normalising once with `mean` and `std`, "" where that fits best.

        Images of any contents have pixels near black and near white, so that their range shows the steps taken.
        """
        ways = {  # back to pixels of 0..1
            "": lambda x: x * std + mean,
            NEVER: lambda x: x,
            "pixels of 0..255 were never normalised": lambda x: x / 255,
            TWICE: lambda x: (x * std + mean) * std + mean,
            "pixels of 0..255 were normalised like those of 0..1": lambda x: (x * std + mean) / 255,
            "pixels were divided by 255 twice": lambda x: (x * std + mean) * 255,
        }
        return min(ways, key=lambda way: abs(ways[way](self.low)) + abs(ways[way](self.high) - 1))

    def __str__(self) -> str:
        return f"mean {self.mean:.3g} and std {self.std:.3g} (from {self.low:.3g} to {self.high:.3g})"


@once
def input_scale(data: Data) -> InputScale:
    """Return what enters the first layer in the batches of the run.

    Raises:
        CannotJudge: no layer multiplies numbers of a batch with weights.
    """
    seen = data.seen
    if not seen.entering:
        raise CannotJudge("no layer multiplies an input with weights as it is")
    values = torch.cat([each.flatten() for each in seen.entering])
    claim = data.claim if data.claim is not None else named(data.loaders, data.trainer.datamodule)
    shape = next(form.shape for form in seen.forms if form.leaf == data.roles.input)
    # Images of 8 bits have 256 values in each channel, unless they were interpolated.
    channels = min(shape[1:], default=0)
    few = len(values) > 2048 * channels >= 8 * len(values.unique())
    kept = [each for split in data.loaders[:1] for each in stored(split)]
    pixels = bool(kept) and str(getattr(kept[0], "dtype", "")).endswith("uint8")
    pixels = pixels or (len(shape) == 4 and channels <= 4 and (few or claim is not None))
    (low, high), place = values.aminmax(), Place(loader="train_dataloader", module=seen.layer, note=data.roles.input)
    arrays = [as_array(each) for each in kept if hasattr(each, "dtype")]
    of_kept = max((len(np.unique(each)) for each in arrays), default=0)
    entered = seen.entering[0]
    is_part = any(2 * entered[0].numel() < each.size for each in arrays)
    levels = 0 if is_part else max(len(sample.unique()) for sample in entered)
    of_all = float(values.mean()), float(values.std()), float(low), float(high)
    return InputScale(*of_all, pixels, claim, place, levels, of_kept, seen.altered)


def stored(split: Split) -> list[Any]:
    """Return a dataset's first samples as it keeps them; none where that is unknown."""
    row = raw_row(origin(split.dataset)[0]) if split.samples else None
    return [] if row is None else [row(index) for index in range(min(split.samples, SHOWN))]


def named(train: list[Split], datamodule: Any) -> tuple[float, float] | None:
    """Return the one mean and std that transforms of the training set name, None of several or none."""
    attributes = vars(datamodule).items() if datamodule is not None else ()
    own = [value for name, value in attributes if re.search("transform|augment|normali[sz]", name)]
    found = {each for value in (*(split.dataset for split in train), *own) for each in named_by_transforms(value)}
    return found.pop() if len(found) == 1 else None


def named_by_transforms(value: Any, depth: int = DEPTH) -> Iterator[tuple[float, float]]:
    """Yield mean and std of every transform that normalises, as torchvision's, kornia's or albumentations' do."""
    if "normalize" in type(value).__name__.lower() and hasattr(value, "mean") and hasattr(value, "std"):
        yield average(value.mean), average(value.std)
    elif depth and not (isinstance(value, (list, tuple, dict)) and len(value) > MANY):
        for _, each in vars(value).items() if isinstance(value, nn.Module) else parts(value):
            yield from named_by_transforms(each, depth - 1)


def average(values: float | Sequence[float]) -> float:
    return float(torch.as_tensor(values, dtype=torch.float64).mean())
