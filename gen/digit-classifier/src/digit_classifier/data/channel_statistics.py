"""Mean and standard deviation of a dataset's channels, and the file that keeps them."""

import logging
import os
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from training_runs.errors import DataError

from .labelled_images import Batch

log = logging.getLogger(__name__)


def channel_statistics(batches: DataLoader[Batch]) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of each channel over all pixels, scaled to 0..1.

    Raises:
        DataError: a channel is the same everywhere.
    """
    total = squares = torch.zeros((), dtype=torch.float64)
    count = 0
    for images, _ in batches:
        pixels = images.transpose(0, 1).flatten(1).double() / 255  # (C, B * H * W)
        total, squares = total + pixels.sum(dim=1), squares + pixels.square().sum(dim=1)
        count += pixels.shape[1]
    mean = total / count
    std = (squares / count - mean.square()).clamp(min=0).sqrt()
    if not std.min():
        raise DataError("data.std=auto: a channel of the training images is the same everywhere; say data.mean and std")
    return mean.tolist(), std.tolist()


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all; where nothing can be written, do without."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        log.warning("%s cannot be kept: %s", path, error)
