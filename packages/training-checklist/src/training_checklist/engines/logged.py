"""What a step logs of a batch, as an epoch of that one batch would."""

import math
from collections.abc import Mapping
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torchmetrics import Metric

from training_checklist.engines.replay import call_step, seed_all
from training_checklist.lightning import LightningModule, isolate_rng

STEPS = {"train": "training", "val": "validation"}  # as the names of steps begin
EPOCHS = {"train": "train_epoch", "val": "validation_epoch"}  # as the names of hooks go on


def logged_by(copy: LightningModule, stage: str, batch: Any, ends: bool = True) -> tuple[dict[str, float], Any]:
    """Return the finite numbers that a `stand_in` logs, and what its step returns, with the same random numbers.

    Args:
        ends: whether the epoch ends with the batch; one of several loaders is not all that is needed to sum it up.
    """
    for part in copy.modules():
        if isinstance(part, Metric):
            part.reset()
    logged: dict[str, Any] = {}

    def log(name: str, value: Any, *_: Any, **__: Any) -> None:
        logged[name] = value

    def log_dict(values: Mapping[str, Any], *_: Any, **__: Any) -> None:
        logged.update(values)

    copy.log, copy.log_dict = log, log_dict
    # Figures and tables of an epoch are the run's own affair.
    with torch.no_grad(), isolate_rng(), patch.object(copy.trainer, "_loggers", []):
        seed_all()
        getattr(copy, f"on_{EPOCHS[stage]}_start")()
        result = call_step(copy, f"{STEPS[stage]}_step", batch)
        if ends:
            getattr(copy, f"on_{EPOCHS[stage]}_end")()
    values = {name: number_in(value) for name, value in logged.items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}, result


def names_of(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a loop of the Trainer has logged by every name that callbacks can ask for.

    One that is logged by step and by epoch has two, and of several loaders each adds its own ending.
    """
    return {name: each for each in results.values() for name in results._forked_name(each, on_step=False)}


def number_in(value: Any) -> float:
    value = value.compute() if isinstance(value, Metric) else value
    if isinstance(value, Tensor):
        return float(value) if value.numel() == 1 else math.nan
    return float(value) if isinstance(value, (int, float)) else math.nan
