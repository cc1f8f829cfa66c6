"""What happens in a training step, seen from outside: the network's outputs, and the place in the code."""

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy
import pytorch_lightning
import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.utilities.seed import isolate_rng
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

# Files that are nobody's mistake: of the libraries, and of this package.
NOT_USERS = (*(str(Path(file).parent) for file in (torch.__file__, pytorch_lightning.__file__, __file__)), "<")


def tensors(batch: Any) -> Iterator[Tensor]:
    """Yield every tensor in nested tuples, lists and mappings."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, dict):
        for value in batch.values():
            yield from tensors(value)
    elif isinstance(batch, (list, tuple)):
        for value in batch:
            yield from tensors(value)


def seed_all() -> None:
    """Let Python, NumPy and torch draw from the same random numbers each time."""
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)


def loss_of(outputs: Any, trainer: Trainer) -> Tensor | None:
    """Return the loss of a step from what `on_train_batch_end` is given, or None where there is none.

    Lightning has divided it by the number of batches that it accumulates.
    """
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    return loss * trainer.accumulate_grad_batches if isinstance(loss, Tensor) else None


def labels_of(batch: Any) -> Tensor | None:
    """Return the class indices (B,) of a batch, or None where it has none or more than one candidate."""
    found = [tensor for tensor in tensors(batch) if tensor.ndim == 1 and tensor.dtype in (torch.int64, torch.int32)]
    return found[0] if len(found) == 1 else None


class Logits:
    """Keeps the last output (B, C) of the outermost modules while it is on, which criterion and metrics don't have."""

    def __init__(self, pl_module: LightningModule) -> None:
        self.value: Tensor | None = None
        self._handles: list[RemovableHandle] = [
            module.register_forward_hook(self._keep) for module in (pl_module, *pl_module.children())
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _keep(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 2 and output.shape[1] > 1 and output.is_floating_point():
            self.value = output

    def accuracy(self, batch: Any) -> float | None:
        """Return the share of right answers, or None where the batch or the outputs are no classification's."""
        labels = labels_of(batch)
        if self.value is None or labels is None or len(labels) != len(self.value):
            return None
        return float((self.value.argmax(1) == labels).float().mean())


class Places:
    """Names where in a model and in the user's code a call comes from."""

    def __init__(self, root: nn.Module) -> None:
        self._names = {id(module): name for name, module in root.named_modules()}
        self._root = type(root).__name__

    def here(self) -> str:
        """Return "path of the innermost module, file:line of the innermost frame of the user's code"."""
        path, line = None, None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (path is None or line is None):
            name = self._names.get(id(frame.f_locals.get("self")))
            if path is None and name is not None:
                path = name or self._root
            file = frame.f_code.co_filename
            if line is None and not file.startswith(NOT_USERS):
                line = f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return ", ".join(part for part in (path, line) if part)

    def near(self) -> str:
        """Return the same with the file from the working directory on, where it lies there."""
        return self.here().replace(f"{Path.cwd()}{os.sep}", "")


@contextmanager
def unwatched(pl_module: LightningModule) -> Iterator[None]:
    """Let the model be inside what its project made it: no hook and no wrapper of a check is on it.

    What one check runs for itself, another must not take for the run; nor do copies take hooks along.
    """
    hooks = [each for module in pl_module.modules() for each in (module._forward_pre_hooks, module._forward_hooks)]
    taken = []
    for values in (*hooks, vars(pl_module)):
        own = {key: value for key, value in values.items() if is_checks(value)}
        taken.append((values, own))
        for key in own:
            del values[key]
    try:
        yield
    finally:
        for values, own in taken:
            values.update(own)


def is_checks(function: Any) -> bool:
    """Whether a function is defined in this package."""
    while isinstance(function, partial):
        function = function.func
    names = getattr(getattr(function, "__func__", function), "__globals__", {})
    return str(names.get("__name__")).startswith(f"{__package__}.")


@contextmanager
def unchanged(pl_module: LightningModule) -> Iterator[None]:
    """Let the model run once more inside: nothing is logged, and its state and random numbers are put back."""
    plain = (bool, int, float, str, type(None), Tensor, list)
    kept = [
        (values, {key: value for key, value in values.items() if isinstance(value, plain)})
        for module in pl_module.modules()
        for values in (vars(module), module._buffers)
    ]
    try:
        with isolate_rng():
            for values, saved in kept:  # copies: a graph that waits for its backward may need the originals as they are
                values.update({key: copied(value) for key, value in saved.items()})
            vars(pl_module).update(log=ignore, log_dict=ignore)
            yield
    finally:
        for name in ("log", "log_dict"):
            vars(pl_module).pop(name, None)
        for values, saved in kept:
            values.update(saved)


def copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else list(value) if isinstance(value, list) else value


def ignore(*arguments: Any, **options: Any) -> None:
    pass
