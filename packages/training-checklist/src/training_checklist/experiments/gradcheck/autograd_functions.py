"""The autograd functions that a project defines, as they are called in a step, and what a step detaches."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.utils._pytree import tree_map

from training_checklist.engines.batches import tensors
from training_checklist.engines.own_code import is_own, pass_on
from training_checklist.engines.places import Places
from training_checklist.engines.tracer import Call, Listener
from training_checklist.finding import Place


@dataclass
class Application:
    """One call of an autograd.Function: what it was given, and where."""

    function: type[Function]
    args: tuple[Any, ...]
    checked: list[int]  # positions of inputs that get a gradient
    place: Place

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
    """While it is entered, calls of the project's own autograd functions are kept, one for each place."""

    def __init__(self, root: nn.Module) -> None:
        self.places = Places(root)
        self.found: dict[tuple[type[Function], Place], Application] = {}

    def __enter__(self) -> "Applications":
        self.patch = around_apply(self._keep)
        self.patch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.patch.__exit__(None, None, None)

    def _keep(self, apply: Callable[..., Any], function: type[Function], args: tuple[Any, ...]) -> Any:
        if torch.is_grad_enabled() and is_own(inspect.getsourcefile(function) or "<"):
            place = self.places.here()
            checked = [index for index, arg in enumerate(args) if is_float(arg) and arg.requires_grad]
            application = Application(function, tuple(map(double, args)), checked, place)
            self.found.setdefault((function, place), application)
        return pass_on(apply, *args)


class Stops(Listener):
    """Makes constants of what is detached, as autograd does: to stop a gradient is no mistake.

    What is detached must come in the same order each time; `restart` begins again.
    """

    def __init__(self) -> None:
        self.values: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        self.count, self.inside = 0, 0

    def around(self, apply: Callable[..., Any], function: type[Function], args: tuple[Any, ...]) -> Any:
        """Call an autograd function: no gradient is recorded in there, but it has one of its own."""
        self.inside += 1
        try:
            return apply(*args)
        finally:
            self.inside -= 1

    def after(self, call: Call) -> None:
        detaches = call.name == "detach" or call.function is Tensor.data.__get__
        if self.inside or not is_float(call.result) or not (detaches or not torch.is_grad_enabled()):
            return
        self.count += 1
        if self.count > len(self.values):
            self.values.append(call.result.clone())
        call.result = self.values[self.count - 1].clone()


@contextmanager
def around_apply(call: Callable[..., Any]) -> Iterator[None]:
    """Inside, applying an autograd function is `call(apply, function, args)`."""
    own = Function.__dict__["apply"]
    Function.apply = classmethod(lambda cls, *args: call(own.__get__(None, cls), cls, args))
    try:
        yield
    finally:
        Function.apply = own


def double(value: Any) -> Any:
    """Return detached copies in float64 of all floating tensors in nested containers."""
    return tree_map(lambda part: part.detach().clone().double() if is_float(part) else part, value)


def is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
