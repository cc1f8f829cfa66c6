"""The mean and std that a project names for the pixels of its images."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from training_checklist.engines.batches import parts

DEPTH = 5  # dataset.dataset.transform.transforms[2]
MANY = 100  # items of a container: longer ones are data


def named_by_transforms(value: Any, depth: int = DEPTH) -> Iterator[tuple[float, float]]:
    """Yield mean and std of every transform that normalises, as torchvision's, kornia's or albumentations' do."""
    if "normalize" in type(value).__name__.lower() and hasattr(value, "mean") and hasattr(value, "std"):
        yield average(value.mean), average(value.std)
    elif depth and not (isinstance(value, (list, tuple, dict)) and len(value) > MANY):
        for _, each in vars(value).items() if isinstance(value, nn.Module) else parts(value):
            yield from named_by_transforms(each, depth - 1)


def average(values: float | Sequence[float]) -> float:
    return float(torch.as_tensor(values, dtype=torch.float64).mean())
