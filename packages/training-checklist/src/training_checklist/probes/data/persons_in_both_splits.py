import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from training_checklist.instruments import Data, MappedDataset, Split, as_array, labelled, length, on_datasets, origin
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold, each_held_out

# Of whom networks are asked about others than they were trained on. Users and items of a shop are known ones.
PERSONS = re.compile(r"(patient|subject|participant|speaker|person|donor|animal|volunteer)(s|_?ids?|_?names?)?", re.I)


@each_held_out
def detect(data: Data, split: Split, limits: Limits) -> Hits:
    name, own = next(persons_of(data.train.dataset), ("", []))
    known = set(own)
    if not own or len(known) == data.roles.classes:  # as many persons as classes: they are what is to be told apart
        raise CannotJudge("the training set names no persons that its samples are of")
    if len(known) in data.roles.tables.values():
        raise CannotJudge("each person has a row of an embedding: the network is not made for others")
    theirs = dict(persons_of(split.dataset)).get(name, [])
    shared = sum(person in known for person in theirs)
    if len(known) > 1 and shared > limits.max_persons * len(theirs):
        yield Hit(
            f"{shared} of {len(theirs)} samples of {split.name} are of {name} that the training set has others of: "
            f"{len(own)} samples of {len(known)}",
            split.place.beside(note=name),
        )


def persons_of(dataset: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name of each column that tells whose a sample is, and the column, one entry for each sample."""
    base, inside = origin(dataset)
    for name, column in named_columns(base):
        rows = column if len(column) == length(base) else read_rows(base, column)
        if rows is not None:
            yield name, [rows[index] for index in inside] if inside is not None else list(rows)


def named_columns(base: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield columns of a dataset, and of the objects and tables that it keeps."""
    kept = list(getattr(base, "__dict__", {}).items())
    for value in [value for _, value in kept]:
        if hasattr(value, "__getitem__") and hasattr(value, "columns"):  # of a table of pandas, or of Arrow
            kept += [(str(name), value[name]) for name in getattr(value, "column_names", value.columns)]
        elif isinstance(value, list) and value and len(value) == length(base):
            kept += of_rows(value)
        elif hasattr(value, "__dict__") and not callable(value):
            kept += vars(value).items()
    for name, value in kept:
        if PERSONS.fullmatch(name.strip("_")) and hasattr(value, "__len__") and not isinstance(value, (str, dict)):
            column = as_array(value)
            if column.ndim == 1:
                yield name, column.tolist()


def of_rows(rows: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield the columns of a list of dictionaries, of named tuples, or of objects."""
    first = rows[0]._asdict() if hasattr(rows[0], "_asdict") else rows[0]
    named = first if isinstance(first, dict) else getattr(first, "__dict__", {})
    for name in named:
        with suppress(KeyError, AttributeError):  # not all rows have it
            yield str(name), [row[name] if isinstance(row, dict) else getattr(row, name) for row in rows]


def read_rows(base: Any, column: list[Any]) -> list[Any] | None:
    """Return the entries of a longer column that a dataset reads, where it keeps their indices."""
    for value in vars(base).values():
        if hasattr(value, "__len__") and not isinstance(value, (str, dict)) and len(value) == length(base):
            indices = as_array(value)
            whole = indices.ndim == 1 and indices.dtype.kind in "iu" and len(np.unique(indices)) == len(indices)
            if whole and len(indices) and indices.min() >= 0 and indices.max() < len(column):
                return [column[index] for index in indices.tolist()]
    return None


class Patients(MappedDataset):
    """Five samples of each patient, from a first one on."""

    def __init__(self, first: int) -> None:
        super().__init__(lambda index, x, y: (x, y), [*labelled(100)])  # what it wraps is looked into
        self.patients = [first + index // 5 for index in range(100)]


PROBE = Probe(
    question="Do the validation and test sets have other persons (patients, speakers) than the training set?",
    why="a network that knows a person by their other samples is better on these than it will be on somebody new",
    severity=WARNING,
    may_be_wrong="where the network will meet the same persons again, as in personalisation and recommendation, splits "
    "share them",
    fix=Fix("split persons and not samples, as sklearn's GroupShuffleSplit does; leave it if they are always known"),
    detect=detect,
    faulty=on_datasets(lambda: Patients(0), lambda: Patients(6)),
    healthy=on_datasets(lambda: Patients(0), lambda: Patients(14)),
    thresholds={
        "max_persons": Threshold(0.5, "of the held-out samples: a few persons may have been counted twice on purpose")
    },
)
