"""Columns of tables, and channels of images and sequences."""

from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place


@dataclass
class Column:
    """A column of the training set's inputs, with the value at its end that several samples have.

    Args:
        name: "batch[0][:, 3]".
        value: the least or the largest.
        count: how many samples have it.
        nearest: of all other values.
        spread: the range of the others.
        kinds: how many different values the others have.
    """

    name: str
    value: float
    count: int
    nearest: float
    spread: float
    kinds: int


@dataclass
class Columns:
    """A table that enters the network."""

    columns: list[Column]
    samples: int
    place: Place = NOWHERE


@dataclass
class ColumnsOfSplits:
    """The columns or channels of the training set, each held against each of another split.

    Args:
        other: name of that split.
        shifts: by how many standard errors means, or means of squares, are apart; the training set's by row.
    """

    other: str
    shifts: list[list[float]] = field(default_factory=list)
    place: Place = NOWHERE
