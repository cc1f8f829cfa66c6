"""A whole training, from its first steps to its last: at the looks that were taken at it, and between them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from training_checklist.experiments.watch.look import Looked
from training_checklist.experiments.watch.timeline import Block
from training_checklist.lab.examples import Example, loader
from training_checklist.lab.shared import Subject
from training_checklist.lightning import LightningModule
from training_checklist.probe import CannotJudge

LEAST = 3  # looks at either end of a training, of which the median is no outlier
PARTS = 8  # of a training: by chance its times, or its memory, rise from each to the next once in 8! = 40,320


@dataclass
class WholeTraining(Subject):
    """What was seen of a training.

    Args:
        looked: at one step in so many.
        blocks: time and memory of some steps each, one after the other.
        optimizers: their names.
        device: that the network is on.
    """

    looked: list[Looked]
    blocks: list[Block]
    optimizers: list[str]
    device: torch.device


def ends(series: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the first third of a series and the last.

    Raises:
        CannotJudge: they are too short.
    """
    third = len(series) // 3
    if third < LEAST:
        raise CannotJudge(f"{len(series)} steps were looked at, which are too few")
    return series[:third], series[-third:]


def parts(series: list[Any]) -> list[list[Any]]:
    """Cut a series into parts of one length, in its order; what is left over at the beginning belongs to none.

    Raises:
        CannotJudge: it is too short.
    """
    length = len(series) // PARTS
    if not length:
        raise CannotJudge("the training has too few steps to cut it into parts")
    rest = series[len(series) - length * PARTS :]
    return [rest[start : start + length] for start in range(0, len(rest), length)]


def looked_at(module: Callable[[], LightningModule], epochs: int = 4) -> Example:
    """Make a training of eight steps an epoch, of which each is looked at from the sixth on."""
    return Example(module, partial(loader, 4), trainer={"max_epochs": epochs}, item={"share": 1e9})


def measured(module: Callable[[], LightningModule]) -> Example:
    """Make a training of 96 steps, whose time and memory are measured."""
    return Example(module, partial(loader, 1), trainer={"max_epochs": 3})
