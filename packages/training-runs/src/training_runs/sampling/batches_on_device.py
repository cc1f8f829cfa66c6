"""Batches cut on the device that trains, from a dataset that lies there: no image crosses from the host."""

from typing import Literal

import torch
from pytorch_lightning import Trainer
from torch import Tensor
from training_config.errors import ConfigError

Where = Literal["auto", "cpu", "gpu"]

CPU = torch.device("cpu")
# Of the memory that is free there, for each of the sets to train on, validate and test: the rest is left to the
# network, of which nobody knows before the first step what it takes.
SHARE = 0.1


def cutting_device(where: Where, nbytes: int, num_workers: int, trainer: Trainer | None) -> torch.device:
    """Return the device that batches are to be cut on.

    Args:
        where: "gpu" for the device that trains; "cpu"; "auto" for the GPU that trains where the data take little of it.
        nbytes: of the data.
        num_workers: of the loader; a process that loads data holds nothing on a GPU.
        trainer: None outside of a run.

    Raises:
        ConfigError: "gpu" cannot be had.
    """
    trains = CPU if trainer is None else trainer.strategy.root_device
    if where == "gpu" and trainer is not None:
        if trains.type == "cpu":
            raise ConfigError("data.device=gpu but this run has no GPU; use data.device=auto, or trainer=gpu")
        if num_workers:
            raise ConfigError(f"data.device=gpu with data.num_workers={num_workers}; set data.num_workers=0")
        return trains
    little = where == "auto" and trains.type == "cuda" and not num_workers and nbytes <= SHARE * free_memory(trains)
    return trains if little else CPU


def free_memory(device: torch.device) -> int:
    """Return the bytes that are free on a CUDA device, for all processes together."""
    return torch.cuda.mem_get_info(device)[0]


def beside(tensor: Tensor, indices: Tensor) -> Tensor:
    """Return `indices` of the CPU on the device of `tensor`, without waiting for it."""
    if not tensor.is_cuda:
        return indices.to(tensor.device)
    return indices.pin_memory().to(tensor.device, non_blocking=True)  # unpinned memory would be waited for
