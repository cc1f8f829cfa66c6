"""The operation that makes the first Inf or NaN, in a forward pass and in its backward pass."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from training_checklist.engines.batches import tensors
from training_checklist.engines.graph import Graph, operation
from training_checklist.engines.tracer import Call
from training_checklist.engines.uncopied import are_batched
from training_checklist.finding import NOWHERE, Place

CHANGES_ITS_INPUT = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__")


@dataclass
class BadOperation:
    """The first operation that made Inf or NaN.

    Args:
        kind: "Inf" or "NaN".
        name: of the operation; as autograd calls it where its backward made it.
        dtype: of what it made: "float16".
        given: abs-max of what went in.
        exact: abs-max of the result in FP32, None where that is not finite either, or not known.
        reached: path of the first module that has it among its inputs.
        follows: whether it is a backward of what was not finite in the forward pass, either.
    """

    kind: str
    name: str
    place: Place = NOWHERE
    dtype: str = "float32"
    given: float = 0.0
    exact: float | None = None
    reached: str = ""
    follows: bool = False


@dataclass
class Source:
    """Where values that are not finite come from: an operation, or None where they were given or are meant."""

    operation: BadOperation | None


class NotFinite(Graph):
    """Finds the operation that a loss, or a gradient, which is not finite goes back to.

    Inf that is written as such, in a mask of attention say, is meant; NaN that an operation makes of it is not.

    Args:
        look: is given each call whose result is finite.
    """

    def __init__(self, look: Callable[[Call], None] | None = None) -> None:
        super().__init__()
        self.look = look
        self.clear()

    def clear(self) -> None:
        """Forget the step before."""
        super().clear()
        self.first: BadOperation | None = None
        self.backward: BadOperation | None = None
        self._sources: dict[int, Source] = {}
        self._nodes: set[Any] = set()  # of the graph, of whose results some numbers are not finite
        self._kept: list[Tensor] = []  # so that no id is given twice
        self._was_bad: dict[int, bool] = {}  # of inputs that an operation changes, before it does

    def before(self, call: Call) -> None:
        name = call.name
        in_place = name in CHANGES_ITS_INPUT or "out" in call.kwargs or (name.endswith("_") and name[:2] != "__")
        self._was_bad = {id(each): not finite([each]) for each in call.given} if in_place else {}

    def after(self, call: Call) -> None:
        super().after(call)
        made = [call.args[0]] if call.name == "__setitem__" else call.made
        sizes = [float(largest(each)) for each in floats(made)]
        if all(map(math.isfinite, sizes)):
            if self.look is not None:
                self.look(call)
            return
        source = self._source(call, any(map(math.isnan, sizes)))
        for tensor in made:
            self._sources[id(tensor)] = source
        self._kept += made
        self._nodes |= {tensor.grad_fn for tensor in made}

    def behind(self, *losses: Tensor | None) -> BadOperation | None:
        """Return the operation that made the Inf or NaN of one of some tensors; else the first one that made any."""
        sources = [self._sources[id(loss)] for loss in losses if id(loss) in self._sources]
        return next((source.operation for source in sources if source.operation is not None), self.first)

    def found(self, nodes: list[Any]) -> None:
        for node in nodes:
            node.register_hook(partial(self._judge, node))

    def _source(self, call: Call, is_nan: bool) -> Source:
        bad = [each for each in call.given if self._was_bad.get(id(each), not finite([each]))]
        known = [self._sources.get(id(each)) for each in bad]
        made_before = next((source for source in known if source is not None and source.operation is not None), None)
        if made_before is not None:
            return made_before
        given_nan = any(each.isnan().any() for each in bad if id(each) not in self._was_bad)
        meant = bad or not all(map(math.isfinite, numbers((call.args, call.kwargs))))
        if given_nan or (meant and not is_nan):
            return Source(None)
        given = max((float(largest(each)) for each in floats(call.given if not self._was_bad else ())), default=0.0)
        dtype = str(next(floats(call.made or call.args)).dtype).removeprefix("torch.")
        found = BadOperation("NaN" if is_nan else "Inf", call.name.strip("_"), call.place, dtype, given, in_fp32(call))
        self.first = self.first or found
        return Source(found)

    def _judge(self, node: Any, made: tuple[Any, ...], given: tuple[Any, ...]) -> None:
        if are_batched((*made, *given)):
            return
        if self.backward is None and not finite(made) and finite(given):
            values = [each for each in made if each is not None]
            kind = "NaN" if any(each.isnan().any() for each in values) else "Inf"
            dtype = next(str(each.dtype) for each in values if not finite([each])).removeprefix("torch.")
            follows = node in self._nodes
            self.backward = BadOperation(kind, operation(node), self.places[node], dtype, follows=follows)


def floats(values: Any) -> Iterator[Tensor]:
    """Yield the real numbers in the tensors of nested values, of sparse ones what they hold."""
    for tensor in tensors(values):
        if is_lazy(tensor):
            continue  # it has no numbers before its first batch
        if tensor.is_nested:  # as torch makes them of padded sequences
            yield from floats(tensor.detach().unbind())
        elif tensor.layout is torch.strided and tensor.is_floating_point() and tensor.numel():
            # Detached: activation checkpointing counts what is saved for a backward pass, and a look would save some.
            yield tensor.detach()
        elif tensor.layout is torch.sparse_coo and tensor.is_floating_point() and tensor._nnz():
            yield tensor.detach()._values()


def largest(tensor: Tensor) -> Tensor:
    """Return the greatest absolute value, NaN where there is one."""
    return torch.stack(torch.aminmax(tensor)).abs().max()  # on a CPU ten times as fast as the norm of order inf


def finite(values: Iterable[Any]) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in floats(list(values)))


def numbers(values: Any) -> Iterator[float]:
    """Yield each Python number in nested arguments."""
    for value in values.values() if isinstance(values, dict) else values:
        if isinstance(value, (list, tuple, dict)):
            yield from numbers(value)
        elif isinstance(value, float):
            yield value


def in_fp32(call: Call) -> float | None:
    """Return the abs-max that a call's result has in FP32, or None where it is not finite, or cannot be told."""

    def widened(value: Any) -> Any:
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(map(widened, value))
        return value.detach().float() if isinstance(value, Tensor) and value.is_floating_point() else value

    if call.name.endswith("_"):  # what it was given is gone
        return None
    try:
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False), torch.no_grad():
            result = call.function(*map(widened, call.args), **{key: widened(v) for key, v in call.kwargs.items()})
        value = max(float(largest(tensor)) for tensor in floats(result))
    except Exception:  # a function that insists on the type that it was called with
        return None
    return value if math.isfinite(value) else None
