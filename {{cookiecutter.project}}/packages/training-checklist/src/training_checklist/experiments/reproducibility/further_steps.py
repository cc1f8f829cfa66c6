"""The training steps that follow a checkpoint, and the same steps once more in a run that is resumed from it."""

import copy
from collections import deque
from dataclasses import dataclass
from functools import wraps
from typing import Any

from torch import Tensor
from torchmetrics import Metric

from training_checklist.engines.held import attributes
from training_checklist.experiments.reproducibility.fingerprints import digest, named, norm
from training_checklist.lightning import LightningModule, Trainer, fabric

_seed = fabric("utilities.seed")
_collect_rng_states, _set_rng_states = _seed._collect_rng_states, _seed._set_rng_states
LIGHTNINGS = set(vars(LightningModule()))
SIZED = (list, tuple, set, dict, deque)


@dataclass
class Step:
    """One training step: what it was given, and what there was when it began.

    Attributes:
        attributes: plain values that modules keep beside parameters and buffers, by their path.
        weights: norms of parameters and buffers.
    """

    batch: Any
    random: dict[str, Any]
    attributes: dict[str, Any]
    rates: list[float]
    weights: dict[str, float]
    loss: float | None = None


class FurtherSteps:
    """Records the training steps from now on.

    Args:
        given: steps of another run, whose batches and random numbers the first ones get instead of their own, so that
            they can only differ by what a checkpoint does not bring back.
    """

    def __init__(self, trainer: Trainer, pl_module: LightningModule, given: list[Step] | None = None) -> None:
        self.module, self.given, self.steps = pl_module, given or [], []
        self.over = False
        self.inner = step = pl_module.training_step

        @wraps(step)  # Lightning reads the signature
        def recorded(batch: Any, *arguments: Any) -> Any:
            if self.over:
                return step(batch, *arguments)
            if len(self.steps) < len(self.given):
                same = self.given[len(self.steps)]
                batch = copy.deepcopy(same.batch)
                _set_rng_states(same.random)
            rates = [float(group["lr"]) for optimizer in trainer.optimizers for group in optimizer.param_groups]
            weights = {name: norm(tensor) for name, tensor in named(pl_module).items()}
            try:
                kept = copy.deepcopy(batch)
            except (TypeError, RuntimeError):  # of batches that hold a graph, or what cannot be copied
                self.over = True
                return step(batch, *arguments)
            this = Step(kept, _collect_rng_states(), plain_values(pl_module), rates, weights)
            self.steps.append(this)
            result = step(batch, *arguments)
            loss = result.get("loss") if isinstance(result, dict) else result
            this.loss = float(loss.detach()) if isinstance(loss, Tensor) else None
            return result

        pl_module.__dict__["training_step"] = recorded

    def remove(self) -> None:
        self.module.__dict__["training_step"] = self.inner


def plain_values(pl_module: LightningModule) -> dict[str, Any]:
    """Return numbers, texts and sizes of containers that modules keep; what metrics keep plays no part in training."""
    metrics = {path for path, module in pl_module.named_modules() if isinstance(module, Metric)}
    found: dict[str, Any] = {}
    for path, name, value in attributes(pl_module):
        where = f"{path or type(pl_module).__name__}.{name}"
        if path in metrics or name in LIGHTNINGS:
            continue
        if isinstance(value, bool | int | float | str | None):
            found[where] = value
        elif isinstance(value, Tensor):
            found[where] = float(value) if value.numel() == 1 else f"values with digest {digest(value)}"
        elif isinstance(value, SIZED):
            found[where] = f"{len(value)} items"
    return found
