"""Samples, and parts of them, that two splits have in common."""

from dataclasses import dataclass

from training_checklist.finding import NOWHERE, Place


@dataclass
class SharedSamples:
    """Samples of a held-out split that the training set has too.

    Args:
        name: of the split.
        shared: how many.
        total: of the split, or as many as were looked at.
        first: index of the first.
        same_dataset: whether both are parts of one dataset, so that indices tell.
        repeatable: whether two samples of such data may well be equal by chance, as rows of a table.
        repeated: rows of the training set that it has more than once.
        rows: of the training set that were looked at.
        of_several: whether its stage has other loaders beside this one.
    """

    name: str
    shared: int
    total: int
    first: int
    same_dataset: bool
    repeatable: bool = False
    repeated: int = 0
    rows: int = 0
    of_several: bool = False
    place: Place = NOWHERE


@dataclass
class SharedParts:
    """Runs of numbers in held-out samples that training samples have too.

    Args:
        leaf: place in the batch.
        samples: held-out ones that were looked at.
        shared: how many of them have such a run.
        length: of a run, in numbers.
    """

    leaf: str
    samples: int
    shared: int
    length: int
    place: Place = NOWHERE


@dataclass
class SharedGroups:
    """Held-out samples of persons whose other samples are trained on.

    Args:
        name: of the column that tells them apart: "patients".
        split: that is held out.
        persons: of the training set.
        samples: of the training set.
        shared: held-out samples of one of these persons.
        held: all held-out samples.
    """

    name: str
    split: str
    persons: int
    samples: int
    shared: int
    held: int
    place: Place = NOWHERE


@dataclass
class TestedAgain:
    """Samples of the test set that training is validated with.

    Args:
        name: of the split that is tested.
        validated: name of the other one.
        shared: how many.
        total: of the split, or as many as were looked at.
    """

    name: str
    validated: str
    shared: int
    total: int
    place: Place = NOWHERE


@dataclass
class SharedRecordings:
    """Tensors that a held-out dataset keeps, and the training set as well.

    Args:
        kept: name of the attribute that holds them.
        split: that is held out.
        shared: how many of its tensors the training set has.
        total: of the held-out dataset.
    """

    kept: str
    split: str
    shared: int
    total: int
    place: Place = NOWHERE
