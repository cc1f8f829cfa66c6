"""What a network is made of: layers, the shapes of what they return, and how many numbers are learnt."""

from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import ModelSummary as LightningModelSummary
from pytorch_lightning.utilities.model_summary import get_human_readable_count
from torch import nn
from torch.utils.hooks import RemovableHandle

from training_runs.records.runs import is_later_job
from training_runs.start import console


class ModelSummary(LightningModelSummary):
    """Says what the network is made of when its first batch has gone through it, which shows the shapes.

    No batch is made up for it, and nothing runs twice. In the terminal once for a sweep, in the log of every run.

    Args:
        max_depth: how many levels of modules within modules are shown; -1 shows all, 0 nothing.
    """

    def __init__(self, max_depth: int = 2) -> None:
        super().__init__(max_depth)
        self.layers: dict[str, Layer] | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and self._max_depth:
            self.layers = {
                name: Layer(module, inside_compiled(pl_module, name))
                for name, module in pl_module.named_modules()
                if name and (self._max_depth < 0 or name.count(".") < self._max_depth)
            }

    def on_validation_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: Any) -> None:
        if self.layers is not None and any(layer.called for layer in self.layers.values()):
            self.say(trainer, pl_module)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *arguments: Any) -> None:
        self.say(trainer, pl_module)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.say(trainer, pl_module)

    def say(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.layers is None:
            return
        layers, self.layers = self.layers, None
        for layer in layers.values():
            layer.detach()
        console.record(summary(layers, pl_module), shown=not is_later_job(Path(trainer.default_root_dir)))


class Layer:
    """A module, and the shape of what it returns at its first call."""

    def __init__(self, module: nn.Module, compiled: bool) -> None:
        self.module, self.output, self.called = module, "", False
        # A hook within a compiled module would have it compiled once more when the hook has gone.
        hidden = compiled or isinstance(module, torch.jit.ScriptModule)
        self.hook: RemovableHandle | None = None if hidden else module.register_forward_hook(self.see)

    def see(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.output, self.called = shape(output), True
        self.detach()

    def detach(self) -> None:
        if self.hook is not None:
            self.hook.remove()
            self.hook = None


def inside_compiled(root: nn.Module, name: str) -> bool:
    """Whether the module `name` of `root`, or one that it lies in, is translated by torch.compile."""
    parts = name.split(".")
    around = (root.get_submodule(".".join(parts[:count])) for count in range(len(parts) + 1))
    return any(module._compiled_call_impl is not None for module in around)


def shape(output: Any) -> str:
    """Return the shape of a tensor, or those of the tensors in a container; other things have none."""
    if hasattr(output, "shape"):
        return str(list(output.shape))
    if isinstance(output, dict):
        return ", ".join(f"{name} {shape(value)}" for name, value in output.items())
    if isinstance(output, (list, tuple)):
        return ", ".join(filter(None, map(shape, output)))
    return ""


def summary(layers: dict[str, Layer], pl_module: LightningModule) -> str:
    """Return a table of the layers that have parameters or have returned something, and the sums of the whole."""
    rows = [("layer", "type", "output", "parameters")]
    for name, layer in layers.items():
        count = sum(numel(parameter) for parameter in layer.module.parameters())
        if count or layer.called:
            rows.append((name, type(layer.module).__name__, layer.output, get_human_readable_count(count).strip()))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join([*map(str.ljust, row[:-1], widths), row[-1].rjust(widths[-1])]).rstrip() for row in rows]
    parameters = list(pl_module.parameters())
    total = sum(map(numel, parameters))
    learnt = sum(numel(parameter) for parameter in parameters if parameter.requires_grad)
    size = sum(numel(parameter) * parameter.element_size() for parameter in parameters) / 1e6
    told = f"{get_human_readable_count(total).strip()} parameters, {get_human_readable_count(learnt).strip()} trainable"
    return "\n".join([*lines, f"{told}, {size:.3g} MB"])


def numel(parameter: nn.Parameter) -> int:
    """Return how many numbers a parameter has: none while a lazy module does not know yet."""
    return 0 if isinstance(parameter, nn.parameter.UninitializedParameter) else parameter.numel()
