"""A whole training, from its first steps to its last, as `watch` has seen it: at its looks, and between them."""

from dataclasses import dataclass, field
from typing import Any

from training_checklist.finding import NOWHERE, Place

LEAST = 3  # looks at either end of a training, of which the median is no outlier


def ends(series: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the first third of a series and the last; nothing where they are shorter than `LEAST`."""
    third = len(series) // 3
    return (series[:third], series[-third:]) if third >= LEAST else ([], [])


def parts(series: list[Any], count: int) -> list[list[Any]]:
    """Cut a series into parts of one length, in its order; what is left over at the beginning belongs to none."""
    length = len(series) // count
    rest = series[len(series) - length * count :]
    return [rest[start : start + length] for start in range(0, len(rest), length)] if length else []


@dataclass(frozen=True)
class WatchedStep:
    """One step of an optimizer.

    Args:
        step: of the training.
        ratio: how far it moved the weights, of their norm; exactly 0 where none has changed.
        gradient: norm of the gradients that it was given.
        rate: its greatest learning rate, None where it has none.
        moved: whether a weight is another than at the look before; None of the first one.
    """

    step: int
    ratio: float
    gradient: float
    rate: float | None = None
    moved: bool | None = None


@dataclass
class OptimizerSeries:
    """The watched steps of one optimizer, in their order."""

    optimizer: str
    steps: list[WatchedStep]


@dataclass
class Lives:
    """What has become of the units of one activation function.

    Args:
        name: of the function.
        alive: how many had a slope for some input in the first third of the looks.
        died: how many of those had none, for no input, in the last third.
        total: how many units there are.
        rows: inputs that each was given in the third of fewer: samples, times positions where there are some.
        step: the first look of the last third.
    """

    name: str
    place: Place
    alive: int
    died: int
    total: int
    rows: int
    step: int = 0


@dataclass
class UnitLives:
    """The units of all activation functions that can have a slope of 0."""

    functions: list[Lives]


@dataclass
class OutputScales:
    """Root of the mean square of what each module with parameters returns, by its path and look.

    Args:
        steps: of the looks.
    """

    scales: dict[str, list[float]]
    steps: list[int] = field(default_factory=list)


@dataclass
class Speed:
    """Median seconds of a step over the training, in parts of so many steps.

    Args:
        wall: from the start of a batch to the start of the next one.
        processor: seconds that this process computed in the same time, on all cores.
        steps: the last one of each part.
    """

    wall: list[float]
    processor: list[float]
    steps: list[int]


@dataclass
class MemoryUse:
    """Bytes at the start of a step over the training.

    Args:
        kind: "memory of this process" or that of a device.
        used: bytes.
        steps: at which.
        total: bytes that there are.
        place: the device.
    """

    kind: str
    used: list[int]
    steps: list[int]
    total: int | None = None
    place: Place = NOWHERE
