import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from training_checklist.instruments import Data, Example, normal, on_datasets, part, tables
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

INFINITE = (
    "it is the largest number of float32, which torch.nan_to_num writes in the place of infinity: no scale fits it",
    Fix("look at what divides by 0; torch.nan_to_num(..., posinf=..., neginf=...) takes numbers of yours"),
)


def detect(data: Data, limits: Limits) -> Hits:
    known = [(place, values) for place, values in tables(data, part(data, data.train)) if values.ndim == 2]
    if not known:
        raise CannotJudge("no table enters the network")
    for place, table in known:
        for index, column in enumerate(table.T):
            for value in column.aminmax():
                others, name = column[column != value], f"{place}[:, {index}]"
                count = len(column) - len(others)
                if count < limits.samples or len(others.unique()) < limits.kinds:
                    continue
                low, high = others.aminmax()
                nearest = low if value < low else high
                if abs(value - nearest) > high - low:
                    is_largest = abs(value) >= torch.finfo(torch.float32).max
                    why, fix = INFINITE if is_largest else (None, None)
                    yield Hit(
                        f"{name} is {value:.4g} in {count} of {len(table)} samples, and at most {high - low:.4g} apart "
                        f"in the others, of which the nearest is {nearest:.4g}",
                        data.train.place.beside(note=name),
                        why,
                        fix,
                    )


def filled(number: int, kinds: int = 160, filler: float = -99) -> Example:
    """Put -99, or another number, into a column so many times, whose other values are so many."""
    inputs = normal(160, 8)
    inputs[:, 2] = (torch.arange(160) % kinds) / kinds
    inputs[:number, 2] = filler

    def split() -> tuple[Tensor, ...]:
        return TensorDataset(inputs, torch.arange(160) % 4)

    return on_datasets(split, split)


PROBE = Probe(
    question="Are missing values kept out of the inputs (no -99 or 0 far away from all other values of its column)?",
    why="such a number stands for a value that is missing, and the network takes it for a measurement",
    severity=WARNING,
    fix=Fix(
        "fill what is missing with the mean, after standardising with 0, and tell the network in a column of its own"
    ),
    detect=detect,
    faulty=filled(5),
    also_faulty=(filled(5, filler=torch.finfo(torch.float32).max),),
    healthy=filled(2),
    thresholds={
        "samples": Threshold(
            3, "samples with the very same number: of continuous measurements two hardly have one", 2.0
        ),
        "kinds": Threshold(
            20,
            "different values among the others: scales of answers and counts of rooms have fewer",
            faulty=filled(20, 40),
            healthy=filled(20, 10),
        ),
    },
)
