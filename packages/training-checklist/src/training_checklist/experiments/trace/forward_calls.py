"""What every module of a network takes and returns while a step runs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torchmetrics import Metric

from training_checklist.engines.batches import tensors
from training_checklist.evidence.network import ModuleCall, Modules, SharedNorm, Unregistered, by
from training_checklist.experiments.trace.effects import is_zero_start

# Of the greatest value: samples that are computed alike differ by a few roundings of float32 where the processor takes
# them in blocks.
ROUNDING = 4 * torch.finfo(torch.float32).eps


@dataclass
class Running:
    """A module that has not returned, and the one that ran last inside it."""

    module: nn.Module
    row: ModuleCall | None
    last: str = ""


class ForwardCalls:
    """While it is entered, every call of a module of `root` that has no submodules, or own parameters, is recorded."""

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self.rows: list[ModuleCall] = []
        self.unregistered: list[Unregistered] = []
        self.zero_start: list[str] = []
        self.paths = {id(module): path for path, module in root.named_modules()}
        self._stack: list[Running] = []
        self._norms: dict[tuple[int, str], SharedNorm] = {}  # by the call in which they ran, and their path
        self._shared: dict[str, SharedNorm] = {}

    def __enter__(self) -> "ForwardCalls":
        self.zero_start = [name for name, value in self.root.named_parameters() if is_zero_start(name, value)]
        # Hooks on all modules and not on those of `root`: a module that nobody registered shows itself only so.
        self._handles = [register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after)]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def evidence(self) -> Modules:
        return Modules(len({row.path for row in self.rows}), self.unregistered, list(self._shared.values()))

    def _before(self, module: nn.Module, inputs: Any) -> None:
        row = None
        inside_metric = any(isinstance(outer.module, Metric) for outer in self._stack)
        if not isinstance(module, Metric) and not inside_metric:
            path = self._path(module)
            own = any(True for _ in module.parameters(recurse=False))
            if path is not None and (own or not any(True for _ in module.children())):
                row = ModuleCall(path, type(module).__name__, shapes(inputs), count(module), torch.is_grad_enabled())
                row.varies = (varies(inputs), None)
                self.rows.append(row)
            if isinstance(module, _BatchNorm) and module.training and self._stack and path is not None:
                self._add_norm(path, type(module).__name__, self._stack[-1])
        self._stack.append(Running(module, row))

    def _after(self, module: nn.Module, inputs: Any, output: Any) -> None:
        while self._stack and self._stack[-1].module is not module:  # a call that raised, and somebody went on
            self._stack.pop()
        if not self._stack:
            return
        row = self._stack.pop().row
        if self._stack:
            self._stack[-1].last = self.paths.get(id(module), "")
        first = next(tensors(output), None)
        if row is None or first is None:
            return
        row.output, row.dtype, row.device = shapes(output), str(first.dtype).removeprefix("torch."), str(first.device)
        row.varies = (row.varies[0], varies(output))
        if first.numel():
            size = first.detach().abs().float()
            row.smallest, row.largest = float(size.min()), float(size.max())

    def _add_norm(self, path: str, kind: str, caller: Running) -> None:
        """Remember after which module a normalisation runs; in a loop that is one and the same."""
        norm = self._norms.setdefault((id(caller), path), SharedNorm(path, kind, []))
        if caller.last not in ("", path, *norm.after):
            norm.after.append(caller.last)
            if len(norm.after) > 1:
                self._shared[path] = norm

    def _path(self, module: nn.Module) -> str | None:
        """Return the module's path in `root`, or None for what is none of its modules and learns nothing."""
        if id(module) not in self.paths:  # it may have been added since
            self.paths |= {id(module): path for path, module in self.root.named_modules()}
        if id(module) in self.paths:
            return self.paths[id(module)]
        outer = next((each.module for each in reversed(self._stack) if id(each.module) in self.paths), self.root)
        inner = self._stack and id(self._stack[-1].module) not in self.paths
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
    return ", ".join(by(tuple(tensor.shape)) for tensor in tensors(values))


def varies(values: Any) -> bool | None:
    """Whether the first tensor differs between samples by more than rounding; None where that cannot be told."""
    first: Tensor | None = next(tensors(values), None)
    if first is None or first.ndim < 2 or len(first) < 2:
        return None
    value = first.detach().float()
    if not value.isfinite().all():
        return None
    return bool((value - value[:1]).abs().max() > ROUNDING * value.abs().max())
