"""Values of batches that validation logs, of which Lightning makes the mean, beside the same of all samples."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from types import FunctionType, ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor
from torchmetrics import Metric

from training_checklist.engines.instead import put
from training_checklist.engines.own_code import is_own, pass_on
from training_checklist.engines.places import Places
from training_checklist.engines.tracer import Call, Listener
from training_checklist.finding import NOWHERE, Place
from training_checklist.lightning import LightningModule

# Where a value is of all samples, and not a mean of what each image, sentence or recording has.
KINDS = ("torchmetrics.classification", "torchmetrics.regression", "torchmetrics.functional.classification")
KINDS += ("torchmetrics.functional.regression", "sklearn.metrics")
OF_THE_MEAN = {"sqrt": torch.sqrt, "exp": torch.exp}  # an RMSE, and a perplexity


@dataclass
class MeanOfBatches:
    """A value of each batch that validation logs, so that the mean of them is kept.

    Args:
        name: as it is logged.
        function: that makes it: "MulticlassF1Score", "sqrt".
        mean: over batches, each as often as it has samples.
        whole: the same function's value for all samples.
        place: of the line that logs it.
    """

    name: str
    function: str
    mean: float
    whole: float
    batches: int
    place: Place = NOWHERE


@dataclass
class Value:
    """What one call in a step came to.

    Args:
        name: of the function or metric.
        maker: tells it from others of that name.
        whole: makes the same of several calls' arguments.
        arguments: of this one.
    """

    name: str
    maker: int
    number: float
    whole: Callable[[list[Any], list[int]], float]
    arguments: Any


@dataclass
class Series:
    """What may have made one logged name: by whom, the values of all batches so far."""

    place: Place
    makers: dict[tuple[str, int], list[Value]] | None = None
    sizes: list[int] = field(default_factory=list)

    def add(self, found: dict[tuple[str, int], Value], size: int) -> None:
        """Keep those that have made this batch's number, too: two may have the same in one batch by chance."""
        before = {maker: [] for maker in found} if self.makers is None else self.makers
        self.makers = {maker: [*values, found[maker]] for maker, values in before.items() if maker in found}
        self.sizes.append(size)


class BatchMeans(Listener):
    """Watches what validation steps compute and log, while it is entered; a tracer tells it of operations."""

    def __init__(self, pl_module: LightningModule) -> None:
        self.module, self.places = pl_module, Places(pl_module)
        self.made: list[Value] = []  # in this step
        self.logged: dict[str, Series] = {}
        self.size: int | None = None  # of the batch of this step, None outside of steps
        self.watching = ExitStack()

    def begin_epoch(self) -> None:
        self.logged.clear()

    def begin(self, size: int | None) -> None:
        self.made, self.size = [], size

    def end(self) -> None:
        self.made, self.size = [], None

    def after(self, call: Call) -> None:
        result = call.result
        if call.name in OF_THE_MEAN and isinstance(result, Tensor) and result.ndim == 0 and len(call.given) == 1:
            self._keep(call.name, 0, result, partial(of_the_mean, OF_THE_MEAN[call.name]), float(call.given[0]))

    def __enter__(self) -> "BatchMeans":
        for module in self.module.modules():
            if isinstance(module, Metric) and is_of_all_samples(type(module)):
                self._watch_metric(module)
        for holder in holders():
            for name, value in list(vars(holder).items()):
                if isinstance(value, FunctionType) and is_of_all_samples(value):
                    setattr(holder, name, self._watched(value))
                    self.watching.callback(setattr, holder, name, value)
        inner = self.module.log

        def log(name: str, value: Any, *arguments: Any, **options: Any) -> None:
            self._look(name, value, options)
            pass_on(inner, name, value, *arguments, **options)

        put(self.module, "log", log)
        self.watching.callback(vars(self.module).pop, "log", None)
        return self

    def __exit__(self, *error: object) -> None:
        self.watching.close()

    def found(self) -> Iterator[MeanOfBatches]:
        for name, series in self.logged.items():
            values = next(iter((series.makers or {}).values()), [])
            if len(values) > 1:
                with suppress(Exception):  # of a function that takes no more than one batch
                    whole = values[0].whole([each.arguments for each in values], series.sizes)
                    pairs = zip(values, series.sizes, strict=True)
                    mean = sum(each.number * size for each, size in pairs) / sum(series.sizes)
                    yield MeanOfBatches(name, values[0].name, mean, whole, len(series.sizes), series.place)

    def _watch_metric(self, metric: Metric) -> None:
        inner = metric.forward

        def forward(*arguments: Any, **options: Any) -> Any:
            result = pass_on(inner, *arguments, **options)
            self._keep(type(metric).__name__, id(metric), result, partial(of_metric, metric), (arguments, options))
            return result

        put(metric, "forward", forward)
        self.watching.callback(vars(metric).pop, "forward", None)

    def _watched(self, function: FunctionType) -> Callable[..., Any]:
        @wraps(function)
        def watched(*arguments: Any, **options: Any) -> Any:
            result = pass_on(function, *arguments, **options)
            self._keep(function.__name__, id(function), result, partial(of_function, function), (arguments, options))
            return result

        return watched

    def _keep(
        self, name: str, maker: int, result: Any, whole: Callable[[list[Any], list[int]], float], arguments: Any
    ) -> None:
        if self.size is not None and (number := number_in(result)) is not None:
            self.made.append(Value(name, maker, number, whole, detached(arguments)))

    def _look(self, name: str, value: Any, options: dict[str, Any]) -> None:
        number = number_in(value)
        if self.size is None or number is None or options.get("reduce_fx", "mean") not in ("mean", torch.mean):
            return
        found = {(each.name, each.maker): each for each in self.made if each.number == number}
        if found or name in self.logged:
            self.logged.setdefault(name, Series(self.places.here())).add(found, self.size)


def is_of_all_samples(kind: Any) -> bool:
    return str(kind.__module__).startswith(KINDS) and not kind.__name__.startswith("_")


def holders() -> list[ModuleType]:
    """Return the modules in which the project's code looks up such functions."""
    found = []
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        package = name.startswith(("torchmetrics.functional", "sklearn.metrics")) and hasattr(module, "__path__")
        if isinstance(file, str) and (package or is_own(file)):
            found.append(module)
    return found


def number_in(value: Any) -> float | None:
    if isinstance(value, Tensor):
        return float(value.detach()) if value.numel() == 1 else None
    return float(value) if isinstance(value, (float, numpy.floating)) else None


def detached(arguments: Any) -> Any:
    """Return arguments as they are now: a step may change its tensors later."""
    return torch.utils._pytree.tree_map_only(Tensor, lambda each: each.detach().clone(), arguments)


def together(given: list[Any]) -> Any:
    """Return the arguments of several calls as those of one: tensors and arrays one after the other."""
    first = given[0]
    if isinstance(first, Tensor):
        return torch.cat(given) if first.ndim else first
    if isinstance(first, numpy.ndarray):
        return numpy.concatenate(given) if first.ndim else first
    if isinstance(first, list):
        return [each for part in given for each in part]
    if isinstance(first, tuple):
        return tuple(together(list(parts)) for parts in zip(*given, strict=True))
    if isinstance(first, dict):
        return {key: together([each[key] for each in given]) for key in first}
    return first


def of_function(function: Callable[..., Any], given: list[Any], sizes: list[int]) -> float:
    arguments, options = together(given)
    return float(function(*arguments, **options))


def of_metric(metric: Metric, given: list[Any], sizes: list[int]) -> float:
    alone = metric.clone()
    alone.reset()
    for arguments, options in given:
        alone.update(*arguments, **options)
    return float(alone.compute())


def of_the_mean(function: Callable[[Tensor], Tensor], given: list[float], sizes: list[int]) -> float:
    mean = sum(each * size for each, size in zip(given, sizes, strict=True)) / sum(sizes)
    return float(function(torch.tensor(mean, dtype=torch.float64)))
