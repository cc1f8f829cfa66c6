"""What every module of a network takes and returns while a step runs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parameter import is_lazy
from torchmetrics import Metric

from training_checklist.engines.batches import holds_numbers, tensors
from training_checklist.engines.lazy import initialized
from training_checklist.engines.uncopied import in_vmap
from training_checklist.lab.shapes import by
from training_checklist.probe import Threshold

SAME = Threshold(
    5e-7,
    "share of the greatest value: samples that are computed alike differ by up to 4 roundings of float32, of 1.2e-7 "
    "each, where the processor takes them in blocks",
)


@dataclass
class ModuleCall:
    """One call of a module.

    Args:
        output: what it returned, "" while it runs or where it raised.
        smallest: least absolute value that is in its output.
        largest: greatest absolute value.
        parameters: how many numbers it learns or keeps as parameters.
        spread: by how much samples differ in its input, and in its output; None where that cannot be told.
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
    spread: tuple[float | None, float | None] = (None, None)

    @property
    def varies(self) -> list[bool | None]:
        """Whether samples differ in its input, and in its output, by more than rounding."""
        return [None if each is None else each > SAME.value for each in self.spread]

    @property
    def facts(self) -> dict[str, Any]:
        """Return what report.json has of it."""
        return {name: value for name, value in vars(self).items() if name != "spread"} | {"varies": self.varies}

    @property
    def named(self) -> str:
        return f"{self.path} ({self.type})"


@dataclass
class Running:
    """A call of a module: what it calls comes inside.

    Args:
        path: of the module; "" of the root and of what is none of its modules.
        last: the path of the module that ran last inside it.
        norms: after which modules the batch normalisations inside it ran that use the batch, by their paths.
    """

    module: nn.Module
    row: ModuleCall | None
    path: str = ""
    last: str = ""
    norms: dict[str, list[str]] = field(default_factory=dict)


class ModuleCalls:
    """While it is entered, every call of a module of `root` that has no submodules, or own parameters, is recorded.

    Attributes:
        rows: of the table.
        unregistered: modules that learn and were called, and are no submodules of `root`, by their paths.
        norms: of each call of a module, after which modules the batch normalisations inside it ran, by their paths.
        zero_start: parameters that start from 0.
    """

    def __init__(self, root: nn.Module) -> None:
        self.root = root
        self.rows: list[ModuleCall] = []
        self.unregistered: dict[str, nn.Module] = {}
        self.norms: list[dict[str, list[str]]] = []
        self.zero_start: list[str] = []
        self.paths = {id(module): path for path, module in root.named_modules()}
        self._stack: list[Running] = []

    def __enter__(self) -> "ModuleCalls":
        self.zero_start = [name for name, value in self.root.named_parameters() if is_zero_start(name, value)]
        # Hooks on all modules and not on those of `root`: a module that nobody registered shows itself only so.
        self._handles = [register_module_forward_pre_hook(self._before), register_module_forward_hook(self._after)]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()

    def _before(self, module: nn.Module, inputs: Any) -> None:
        row = None
        inside_metric = any(isinstance(outer.module, Metric) for outer in self._stack)
        if not isinstance(module, Metric) and not inside_metric:
            path = self._path(module)
            own = any(True for _ in module.parameters(recurse=False))
            if path is not None and (own or not any(True for _ in module.children())):
                row = ModuleCall(path, type(module).__name__, shapes(inputs), count(module), torch.is_grad_enabled())
                row.spread = (None if in_vmap() else spread(inputs), None)
                self.rows.append(row)
            if isinstance(module, _BatchNorm) and module.training and self._stack and path is not None:
                self._add_norm(path, self._stack[-1])
        self._stack.append(Running(module, row, self.paths.get(id(module), "")))

    def _after(self, module: nn.Module, inputs: Any, output: Any) -> None:
        while self._stack and self._stack[-1].module is not module:  # a call that raised, and somebody went on
            self._stack.pop()
        if not self._stack:
            return
        done = self._stack.pop()
        row = done.row
        if self._stack:
            self._stack[-1].last = done.path
        first = next(tensors(output), None)
        if row is None:
            return
        row.output = shapes(output) or type(output).__name__
        if first is None:
            return
        row.dtype, row.device = str(first.dtype).removeprefix("torch."), str(first.device)
        if in_vmap():
            return
        row.spread = (row.spread[0], spread(output))
        if first.numel():
            size = first.detach().abs().float()
            row.smallest, row.largest = float(size.min()), float(size.max())

    def _add_norm(self, path: str, caller: Running) -> None:
        """Remember after which module a normalisation runs; in a loop that is one and the same."""
        if not caller.norms:
            self.norms.append(caller.norms)
        after = caller.norms.setdefault(path, [])
        if caller.last not in ("", path, *after):
            after.append(caller.last)

    def _path(self, module: nn.Module) -> str | None:
        """Return the module's path in `root`, or None for what is none of its modules and learns nothing."""
        if id(module) not in self.paths:  # it may have been added since
            self.paths |= {id(module): path for path, module in self.root.named_modules()}
        if id(module) in self.paths:
            return self.paths[id(module)]
        outer = next((each.module for each in reversed(self._stack) if id(each.module) in self.paths), self.root)
        inner = self._stack and id(self._stack[-1].module) not in self.paths
        learns = sum(parameter.numel() for parameter in initialized(module.parameters()) if parameter.requires_grad)
        if not learns or inner or not torch.is_grad_enabled():
            return None
        path = ".".join(filter(None, [self.paths.get(id(outer), ""), attribute(outer, module)]))
        self.unregistered.setdefault(path, module)
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
    return sum(parameter.numel() for parameter in initialized(module.parameters()))


def shapes(values: Any) -> str:
    """Return "64x1x28x28, 64", the shapes of all tensors in `values`."""
    # A nested tensor has no shape: its parts have shapes of their own.
    return ", ".join(f"{len(t.unbind())} nested" if t.is_nested else by(tuple(t.shape)) for t in tensors(values))


def spread(values: Any) -> float | None:
    """Return by how much samples differ in the first tensor, as a share of its greatest value; None if unknown."""
    first: Tensor | None = next(tensors(values), None)
    if first is None or not holds_numbers(first) or first.ndim < 2 or len(first) < 2:
        return None
    value = first.detach().float()
    if not value.isfinite().all():
        return None
    largest = float(value.abs().max()) if value.numel() else 0.0
    return float((value - value[:1]).abs().max()) / largest if largest else 0.0


def is_zero_start(name: str, parameter: Tensor) -> bool:
    """Whether a weight starts from zero, as heads, LoRA and the last scale of a residual branch do on purpose."""
    return not name.endswith("bias") and not is_lazy(parameter) and not parameter.detach().any()
