import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, go_along, normal, on_datasets, tables, whole_table
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(data: Data, limits: Limits) -> Hits:
    """See which columns of a table number its rows, where all of them are there."""
    known = [(place, each) for place, each in tables(data, whole_table(data, data.train)) if each.ndim == 2]
    known = [(place, each) for place, each in known if len(each) == data.train.samples >= limits.least_rows]
    if not known:
        raise CannotJudge(f"no table of {limits.least_rows} rows or more was looked at as a whole")
    for place, values in known:
        gaps = values.double().sort(0).values.diff(dim=0)
        steps = gaps / gaps.amin(0).clamp_min(1e-300)
        whole = ((steps - steps.round()).abs() < limits.off_grid).all(0) & (gaps.amin(0) > 0)
        dense = steps.sum(0) < limits.numbers_per_row * len(values)
        found = (whole & dense).nonzero().flatten().tolist()
        names = ", ".join(f"{place}[:, {index}]" for index in found if not is_coordinate(values, index))
        # A single column is what a demonstration is about.
        if names and values.shape[1] > 1:
            yield Hit(
                f"{names} has another whole number for each of {len(values)} rows, one after the other: an identifier, "
                "or the number of the row",
                data.train.place.beside(note=names),
            )


def is_coordinate(values: Tensor, index: int) -> bool:
    """Whether all other columns go along with a column, as powers of a number or series of a time do."""
    columns = values[values[:, index].argsort()]
    return go_along(columns[:, torch.arange(columns.shape[1]) != index])


def powers() -> TensorDataset:
    x = torch.linspace(-1, 1, 240)
    return TensorDataset(torch.stack([x**power for power in range(8)], 1), torch.arange(240) % 4)


def numbered(rows: int = 240, apart: int = 1, alike: int = 1, off: float = 0.0) -> Example:
    """Number rows.

    Args:
        apart: how far the numbers of rows are apart, but for the last two.
        alike: rows that share a number.
        off: of a step, by which every second row is off.
    """

    def table() -> TensorDataset:
        inputs, numbers = normal(rows, 8), torch.arange(rows)
        inputs[:, 0] = apart * (numbers // alike) - (apart - 1) * (numbers == rows - 1) + off / 2 * (numbers % 2)
        return TensorDataset(inputs, numbers % 4)

    return on_datasets(table)


PROBE = Probe(
    question="Are row numbers and identifiers kept out of the inputs?",
    why="the order in which rows were collected or exported often tells their targets, and nothing of the rows to come",
    severity=WARNING,
    fix=Fix("take the column out of the inputs, unless it is a time that will go on"),
    detect=detect,
    thresholds={
        "least_rows": Threshold(
            200,
            "rows, of which no two have the same whole number by chance, of as many as there are",
            healthy=numbered(rows=100),
        ),
        "off_grid": Threshold(
            0.1,
            "of a step: what float32 leaves of the steps of 100,000 rows, scaled",
            faulty=numbered(off=0.05),
            healthy=numbered(off=0.15),
        ),
        "numbers_per_row": Threshold(
            4,
            "numbers for each row: a part of the rows is held out",
            faulty=numbered(apart=3),
            healthy=numbered(apart=6),
        ),
    },
    faulty=numbered(),
    healthy=numbered(alike=2),
    also_healthy=(on_datasets(powers),),
)
