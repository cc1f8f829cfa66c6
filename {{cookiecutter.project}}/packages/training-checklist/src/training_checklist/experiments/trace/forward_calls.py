"""What every module of a network takes and returns while a step runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torchmetrics import Metric

from training_checklist.engines.batches import tensors


@dataclass
class ModuleCall:
    """One call of a module.

    Args:
        output: what it returned, "" while it runs or where it raised.
        smallest: least absolute value that is in its output.
        largest: greatest absolute value.
        parameters: how many numbers it learns or keeps as parameters.
        varies: whether samples differ in its input, and in its output; None where that cannot be told.
        with_grad: whether gradients were recorded.
    """

    path: str
    type: str
    input: str
    parameters: int
    with_grad: bool
    output: str = ""
    dtype: str = ""
    device: str = ""
    smallest: float | None = None
    largest: float | None = None
    varies: tuple[bool | None, bool | None] = (None, None)


@dataclass
class Unregistered:
    """A module that learns and was called, but is no submodule of the LightningModule."""

    path: str
    type: str
    parameters: int


@dataclass
class ForwardCalls:
    """While it is entered, every call of a module of `root` that has no submodules, or own parameters, is recorded."""

    root: nn.Module
    rows: list[ModuleCall] = field(default_factory=list)
    unregistered: list[Unregistered] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.paths = {id(module): path for path, module in self.root.named_modules()}
        self._stack: list[tuple[nn.Module, ModuleCall | None]] = []

    def __enter__(self) -> "ForwardCalls":
        # Hooks on all modules and not on those of `root`: a module that nobody registered shows itself only so.
        self._handles = [register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after)]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def running(self) -> ModuleCall | None:
        """The innermost module that has not returned."""
        return next((row for _, row in reversed(self._stack) if row is not None), None)

    def _before(self, module: nn.Module, inputs: Any) -> None:
        row = None
        inside_metric = any(isinstance(outer, Metric) for outer, _ in self._stack)
        if not isinstance(module, Metric) and not inside_metric:
            path = self._path(module)
            own = any(True for _ in module.parameters(recurse=False))
            if path is not None and (own or not any(True for _ in module.children())):
                row = ModuleCall(path, type(module).__name__, shapes(inputs), count(module), torch.is_grad_enabled())
                row.varies = (varies(inputs), None)
                self.rows.append(row)
        self._stack.append((module, row))

    def _after(self, module: nn.Module, inputs: Any, output: Any) -> None:
        while self._stack and self._stack[-1][0] is not module:  # a call that raised, and somebody went on
            self._stack.pop()
        if not self._stack:
            return
        _, row = self._stack.pop()
        first = next(tensors(output), None)
        if row is None or first is None:
            return
        row.output, row.dtype, row.device = shapes(output), str(first.dtype).removeprefix("torch."), str(first.device)
        row.varies = (row.varies[0], varies(output))
        if first.numel():
            size = first.detach().abs().float()
            row.smallest, row.largest = float(size.min()), float(size.max())

    def _path(self, module: nn.Module) -> str | None:
        """Return the module's path in `root`, or None for what is none of its modules and learns nothing."""
        if id(module) not in self.paths:  # it may have been added since
            self.paths |= {id(module): path for path, module in self.root.named_modules()}
        if id(module) in self.paths:
            return self.paths[id(module)]
        outer = next((outer for outer, _ in reversed(self._stack) if id(outer) in self.paths), self.root)
        inner = self._stack and id(self._stack[-1][0]) not in self.paths
        learns = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
        if not learns or inner or not torch.is_grad_enabled():
            return None
        path = ".".join(filter(None, [self.paths.get(id(outer), ""), attribute(outer, module)]))
        if path not in [known.path for known in self.unregistered]:
            self.unregistered.append(Unregistered(path, type(module).__name__, learns))
        return path


def attribute(owner: nn.Module, module: nn.Module) -> str:
    """Return how `owner` keeps a module that it has not registered: "extra[0]", or the module's type."""
    for name, value in vars(owner).items():
        if value is module:
            return name
        for key, item in items(value):
            if item is module:
                return f"{name}[{key!r}]"
    return type(module).__name__


def items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, (list, tuple)):
        yield from enumerate(value)
    elif type(value) is dict:  # _modules and _parameters of a module are dictionaries too, but never hold it here
        yield from value.items()


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def shapes(values: Any) -> str:
    """Return "64x1x28x28, 64", the shapes of all tensors in `values`."""
    return ", ".join("x".join(map(str, tensor.shape)) or "scalar" for tensor in tensors(values))


def varies(values: Any, tolerance: float = 1e-6) -> bool | None:
    """Whether the first tensor differs between samples by more than rounding; None where that cannot be told."""
    first: Tensor | None = next(tensors(values), None)
    if first is None or first.ndim < 2 or len(first) < 2:
        return None
    value = first.detach().float()
    if not value.isfinite().all():
        return None
    return bool((value - value[:1]).abs().max() > tolerance * value.abs().max())
