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
class RowNumbers:
    """Columns that have another whole number for each row of a table, with hardly one left out between them.

    Args:
        names: "batch[0][:, 3]".
        rows: of the table.
        columns: of it.
    """

    names: list[str]
    rows: int
    columns: int
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


@dataclass
class CodesOfSplits:
    """The codes of a category, each held against each of another split by what goes with it: numbers and targets.

    Args:
        other: name of that split.
        column: "batch['codes'][:, 2]".
        shifts: by how many standard errors means are apart, by code in the training set and code in the other split.
    """

    other: str
    column: str
    shifts: dict[int, dict[int, float]] = field(default_factory=dict)
    place: Place = NOWHERE


@dataclass
class FittedTo:
    """Columns of a table, and of which samples mean and deviation, or least and largest value, are 0 and 1.

    Args:
        other: name of a split beside the training set.
        standard: how many columns have mean 0 and deviation 1, over the samples of "train", "other" or "both".
        ranged: how many reach from 0 to 1 and no further, likewise.
        columns: how many there are that have more than two values.
    """

    other: str
    standard: dict[str, int]
    ranged: dict[str, int]
    columns: int
    place: Place = NOWHERE
