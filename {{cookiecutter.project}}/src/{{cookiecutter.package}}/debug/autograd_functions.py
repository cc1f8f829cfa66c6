"""The autograd functions that a project defines, as they are called in a step, and what a step detaches."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from .observe import Places, tensors

LIBRARIES = {"torch", "pytorch_lightning", "lightning", "lightning_fabric", "torchmetrics"}


@dataclass
class Application:
    """One call of an autograd.Function: what it was given, and where."""

    function: type[Function]
    args: tuple[Any, ...]
    checked: list[int]  # positions of inputs that get a gradient
    place: str

    def name_of(self, position: int) -> str:
        names = list(inspect.signature(self.function.forward).parameters)
        names = names if self.function.setup_context is not Function.setup_context else names[1:]  # without ctx
        return names[position] if position < len(names) else f"number {position}"

    def of(self, position: int) -> Callable[[Tensor], tuple[Tensor, ...]]:
        """Return the function of one input alone."""

        def call(value: Tensor) -> tuple[Tensor, ...]:
            args = [value if index == position else arg for index, arg in enumerate(self.args)]
            # Clones: some functions work in place.
            result = self.function.apply(*(arg.clone() if isinstance(arg, Tensor) else arg for arg in args))
            return tuple(tensor for tensor in tensors(result) if tensor.requires_grad)

        return call


class Applications:
    """While it is entered, calls of autograd functions that belong to no library are kept, one for each place."""

    def __init__(self, root: nn.Module) -> None:
        self.places, self.found = Places(root), {}

    def __enter__(self) -> "Applications":
        self._own = own = Function.__dict__["apply"]

        def apply(cls: type[Function], *args: Any, **options: Any) -> Any:
            place = self.places.here()
            if cls.__module__.partition(".")[0] not in LIBRARIES and torch.is_grad_enabled() and not options:
                checked = [index for index, arg in enumerate(args) if is_float(arg) and arg.requires_grad]
                kept = tuple(double(arg) for arg in args)
                self.found.setdefault((cls, place), Application(cls, kept, checked, place))
            return own.__get__(None, cls)(*args, **options)

        Function.apply = classmethod(apply)
        return self

    def __exit__(self, *error: object) -> None:
        Function.apply = self._own


class Stops(TorchFunctionMode):
    """Makes constants of what a function has detached, as autograd does: stopping a gradient is no wrong gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[Any] = []
        self.count = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        stopped = name == "detach" or function is Tensor.data.__get__ or not torch.is_grad_enabled()
        if not stopped or not is_float(result):
            return result
        self.count += 1
        if self.count > len(self.values):
            self.values.append(result.clone())
        return self.values[self.count - 1].clone()


def double(value: Any) -> Any:
    """Return detached copies in float64 of all floating tensors in nested containers."""
    return tree_map(lambda part: part.detach().clone().double() if is_float(part) else part, value)


def is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
