"""Backward passes that make NaN or Inf, with the operation of the forward pass that is to blame."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from training_checklist.engines.batches import tensors
from training_checklist.engines.criterion_calls import around_training_step
from training_checklist.engines.observe import Places
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import Finding, unsorted
from training_checklist.lightning import LightningModule, Trainer


class Anomaly(Experiment):
    """Fails where backward makes NaN or Inf: names the forward operation, its module and its source line.

    Autograd's own anomaly mode is on as well; it knows NaN only, and no module.
    """

    item = "anomaly"

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watch = Watch(Places(pl_module))
        self.around = around_training_step(pl_module, self.watch)
        self.around.__enter__()
        self.steps = 0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.watch.first = self.watch.forward = None

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if not torch.isfinite(loss).all():
            operation, place = self.watch.forward or ("nothing that could be seen", "training_step")
            self.fail(
                f"the loss is {float(loss.detach())} before backward has begun: {operation} made the first NaN or Inf",
                f"{place}, batch {self.steps}",
                "the forward pass made it, and every gradient is NaN or Inf after it",
                "keep its operand away from the edge, with an eps or a clamp; python train.py +debug=overflow",
            )

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.steps += 1
        self.seen = f"{self.steps} backward passes, all finite"
        if self.watch.first is not None and not self.findings:
            self._add(self._finding())

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.around.__exit__(None, None, None)

    def explain(self, error: Exception) -> Finding | None:
        if self.findings:  # which autograd's own anomaly mode has made an exception of
            return self.findings[0]
        return None if self.watch.first is None else self._finding()

    def _finding(self) -> Finding:
        kind, operation, place = self.watch.first
        return unsorted(
            "failed",
            f"backward of {operation} makes {kind} in step {self.steps}, from gradients that were finite",
            place,
            "the forward value is finite but its slope is not: sqrt, norm or std at 0, log or division near 0, "
            "or 0 * inf in a masked branch",
            "keep the operand away from the edge: add an eps inside (x.clamp_min(1e-6).sqrt(), x / (std + 1e-6))",
        )


class Watch(TorchFunctionMode):
    """Hooks the backward node of every operation; `first` is (kind, operation, place) of the first bad one.

    `forward` is (operation, place) of the first whose output is not finite though its inputs are.
    """

    def __init__(self, places: Places) -> None:
        super().__init__()
        self.places = places
        self.first: tuple[str, str, str] | None = None
        self.forward: tuple[str, str] | None = None

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if self.forward is None and not finite(tensors(result)) and finite(tensors([args, kwargs])):
            self.forward = getattr(function, "__name__", str(function)), self.places.near()
        for tensor in tensors(result):
            if tensor.grad_fn is not None:
                tensor.grad_fn.register_hook(self._judge(tensor.grad_fn.name(), self.places.near()))
        return result

    def _judge(self, name: str, place: str) -> Any:
        def hook(made: tuple[Tensor | None, ...], given: tuple[Tensor | None, ...]) -> None:
            if self.first is None and not finite(made) and finite(given):
                kind = "NaN" if any(tensor is not None and tensor.isnan().any() for tensor in made) else "Inf"
                self.first = kind, name.removesuffix("0").removesuffix("Backward"), place

        return hook


def finite(values: Iterable[Tensor | None]) -> bool:
    # Detached: activation checkpointing counts what is saved for a backward pass, and isfinite would save something.
    known = [value.detach() for value in values if value is not None and value.is_floating_point()]
    return all(bool(torch.isfinite(value).all()) for value in known)
