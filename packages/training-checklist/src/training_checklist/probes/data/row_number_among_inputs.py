import torch
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, normal, of_data, tables, whole_table
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe

ROWS = 200  # of which no two have the same whole number by chance, of as many as there are
OFF_GRID = 0.1  # of a step: what float32 leaves of the steps of 100,000 rows, scaled
SPARSE = 4  # numbers for each row: a part of the rows is held out


def detect(data: Data, limits: Limits) -> Hits:
    """See which columns of a table number its rows, where all of them are there."""
    known = [(place, each) for place, each in tables(data, whole_table(data, data.train)) if each.ndim == 2]
    known = [(place, each) for place, each in known if len(each) == data.train.samples >= ROWS]
    if not known:
        raise CannotJudge(f"no table of {ROWS} rows or more was looked at as a whole")
    for place, values in known:
        gaps = values.double().sort(0).values.diff(dim=0)
        steps = gaps / gaps.amin(0).clamp_min(1e-300)
        whole = ((steps - steps.round()).abs() < OFF_GRID).all(0) & (gaps.amin(0) > 0)
        dense = steps.sum(0) < SPARSE * len(values)
        names = ", ".join(f"{place}[:, {index}]" for index in (whole & dense).nonzero().flatten().tolist())
        # A single column is what a demonstration is about.
        if names and values.shape[1] > 1:
            yield Hit(
                f"{names} has another whole number for each of {len(values)} rows, one after the other: an identifier, "
                "or the number of the row",
                data.train.place.beside(note=names),
            )


def numbered(step: int) -> Example:
    inputs = normal(240, 8)
    inputs[:, 0] = torch.arange(240) // step
    return of_data(lambda: TensorDataset(inputs, torch.arange(240) % 4))


PROBE = Probe(
    question="Are row numbers and identifiers kept out of the inputs?",
    why="the order in which rows were collected or exported often tells their targets, and nothing of the rows to come",
    severity=WARNING,
    fix=Fix("take the column out of the inputs, unless it is a time that will go on"),
    detect=detect,
    faulty=numbered(1),
    healthy=numbered(2),
)
