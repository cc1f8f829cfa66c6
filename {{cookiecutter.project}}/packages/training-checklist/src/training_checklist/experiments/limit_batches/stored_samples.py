"""What a dataset keeps in memory for its samples, before any augmentation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

MANY_NUMBERS = 16  # in which two images or recordings differ, and two rows of a table need not
SMALLEST_ROW = 4  # numbers; fewer are too likely to be the same by chance


def origin(dataset: Any) -> tuple[Any, list[int] | None]:
    """Return the dataset behind subsets and wrappers, and which of its samples are in; None: all, in their order."""
    inner, indices = getattr(dataset, "dataset", None), getattr(dataset, "indices", None)
    if isinstance(inner, Dataset) and indices is not None:
        base, below = origin(inner)
        indices = [int(index) for index in indices]
        return base, indices if below is None else [below[index] for index in indices]
    for value in attributes(dataset):
        if isinstance(value, Dataset) and value is not dataset and not isinstance(value, IterableDataset):
            base, below = origin(value)
            if len(value) == len(dataset):  # wrapped, to transform its samples
                return base, below
    return dataset, None


def attributes(dataset: Any) -> list[Any]:
    return list(getattr(dataset, "__dict__", {}).values())


def columns(dataset: Any) -> list[Any]:
    """Return everything that a dataset keeps one of for each sample: tensors, arrays and lists of its length."""
    kept = attributes(dataset)
    kept += [part for value in kept if isinstance(value, (list, tuple)) and len(value) < 10 for part in value]
    return [value for value in kept if is_column(value, len(dataset))]


def is_column(value: Any, length: int) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) == length
    return bool(getattr(value, "shape", ())) and hasattr(value, "dtype") and value.shape[0] == length


def raw_row(dataset: Any) -> Callable[[int], Any] | None:
    """Return a function from a sample's index to what is stored for it, but for its labels.

    None where nothing is found; augmentation plays no part in what is stored.
    """
    best, size = None, SMALLEST_ROW - 1
    for column in columns(dataset):
        weight = row_size(column[0])
        if weight > size:
            best, size = column, weight
    return None if best is None else lambda index: best[index]


def row_size(row: Any) -> int:
    """Return how many numbers or letters tell a sample from others."""
    if isinstance(row, (str, bytes)):
        return len(row)
    if isinstance(row, (list, tuple)):
        return max(map(row_size, row), default=0)
    if hasattr(row, "__fspath__"):
        return len(str(row))
    shape = getattr(row, "shape", ())
    return int(torch.Size(shape).numel()) if shape else 0


def digest(row: Any) -> int:
    """Hash the part of a row that is largest, so that a label beside it does not count."""
    if isinstance(row, (list, tuple)):
        numbers = all(isinstance(value, (int, float)) for value in row)
        return hash(tuple(row)) if numbers else digest(max(row, key=row_size))
    if isinstance(row, Tensor):
        row = row.detach().cpu().contiguous().numpy()
    return hash(row.tobytes() if hasattr(row, "tobytes") else str(row))


def are_unlikely_to_repeat(rows: list[Any]) -> bool:
    """Whether samples of such data are never the same by chance: any two that differ do so in many of their numbers."""
    try:
        numbers = torch.stack([torch.as_tensor(row).flatten() for row in rows]).unique(dim=0)
    except (TypeError, ValueError, RuntimeError):  # of names, or of several sizes
        return False
    differ = (numbers[:, None] != numbers).sum(2)
    return len(numbers) > 1 and int(differ[differ > 0].min()) >= min(MANY_NUMBERS, numbers.shape[1])


def is_blank(row: Any) -> bool:
    """Whether a sample is the same number throughout, as an empty image, and may well repeat."""
    return isinstance(row, Tensor | np.ndarray) and bool((row == row.reshape(-1)[0]).all())


def stored_labels(dataset: Any, indices: list[int], labels: Tensor) -> Tensor | None:
    """Return all labels of a dataset where it keeps them in one piece, else None.

    `labels` are those of the samples at `indices` as the network gets them, and must be the same.
    """
    base, inside = origin(dataset)
    known = indices if inside is None else [inside[index] for index in indices]
    for column in columns(base):
        try:
            stored = torch.as_tensor(column).cpu()
        except (TypeError, ValueError, RuntimeError):
            continue
        if stored.ndim == 1 and not stored.is_floating_point() and torch.equal(stored[known].long(), labels.long()):
            return stored.long() if inside is None else stored[inside].long()
    return None
