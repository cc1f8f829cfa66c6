import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial, wraps
from math import isfinite
from types import FunctionType, ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional
from torchmetrics import Metric

from training_checklist.instruments import (
    CRITERIA,
    Call,
    EpochListener,
    Example,
    TwoEpochs,
    Validated,
    batch_size,
    is_own,
    pass_on,
    put,
    several_steps,
)
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

# Where a value is of all samples, and not a mean of what each image, sentence or recording has.
KINDS = ("torchmetrics.classification", "torchmetrics.regression", "torchmetrics.functional.classification")
KINDS += ("torchmetrics.functional.regression", "sklearn.metrics")
OF_THE_MEAN = {"sqrt": torch.sqrt, "exp": torch.exp}  # an RMSE, and a perplexity, where that is of a mean
MEANS = {*CRITERIA, "mean", "nanmean", "div", "true_divide", "__truediv__"}
AS_IT_IS = {"detach", "float", "double", "cpu", "to", "clamp", "neg", "__neg__"}


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

    name: str
    place: Place
    makers: dict[tuple[str, int], list[Value]] | None = None
    sizes: list[int] = field(default_factory=list)

    def add(self, found: dict[tuple[str, int], Value], size: int) -> None:
        """Keep those that have made this batch's number, too: two may have the same in one batch by chance."""
        before = {maker: [] for maker in found} if self.makers is None else self.makers
        self.makers = {maker: [*values, found[maker]] for maker, values in before.items() if maker in found}
        self.sizes.append(size)

    @property
    def values(self) -> list[Value]:
        return next(iter((self.makers or {}).values()), [])

    @property
    def mean(self) -> float:
        """The mean over batches, each as often as it has samples, as Lightning makes it."""
        return weighted((each.number for each in self.values), self.sizes)

    @cached_property
    def whole(self) -> float | None:
        """The same function's value for all samples; None where nothing is known of two batches or more."""
        try:
            return (
                self.values[0].whole([each.arguments for each in self.values], self.sizes) if self.values[1:] else None
            )
        except Exception:  # of a function that takes no more than one batch
            return None


class BatchMeans(EpochListener):
    """Sees what validation steps compute, and log the mean of."""

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.made: list[Value] = []  # in this step
        self.means: list[Tensor] = []  # likewise: single numbers that are a mean
        self.logged: dict[str, Series] = {}  # of the present epoch
        self.size: int | None = None  # of the batch of this step, None outside of steps
        for module in run.pl_module.modules():
            if isinstance(module, Metric) and is_of_all_samples(type(module)):
                self._watch_metric(module)
        for holder in holders():
            for name, value in list(vars(holder).items()):
                if isinstance(value, FunctionType) and is_of_all_samples(value):
                    setattr(holder, name, self._watched(value))
                    self.watching.callback(setattr, holder, name, value)
        self.before_log(self._look)

    def on_validation_epoch_start(self, *_: Any) -> None:
        self.logged.clear()

    def on_validation_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: int) -> None:
        self.made, self.means, self.size = [], [], batch_size(batch) if len(trainer.num_val_batches) == 1 else None

    def on_validation_batch_end(self, *_: Any) -> None:
        self.made, self.means, self.size = [], [], None

    def after(self, call: Call) -> None:
        result = call.result
        if not isinstance(result, Tensor) or result.ndim:
            return
        is_of_mean = len(call.given) == 1 and any(each is call.given[0] for each in self.means)
        if call.name in MEANS or (call.name in AS_IT_IS and is_of_mean):
            self.means.append(result)
        elif call.name in OF_THE_MEAN and is_of_mean:
            self._keep(call.name, 0, result, partial(of_the_mean, OF_THE_MEAN[call.name]), float(call.given[0]))

    def _watch_metric(self, metric: Metric) -> None:
        inner = metric.forward

        def forward(*arguments: Any, **options: Any) -> Any:
            result = pass_on(inner, *arguments, **options)
            self._keep(type(metric).__name__, id(metric), result, partial(of_metric, metric), (arguments, options))
            return result

        self.watching.callback(put(metric, "forward", forward))

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
            self.logged.setdefault(name, Series(name, self.caller())).add(found, self.size)


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
    return float(function(torch.tensor(weighted(given, sizes), dtype=torch.float64)))


def weighted(values: Iterable[float], sizes: list[int]) -> float:
    return sum(each * size for each, size in zip(values, sizes, strict=True)) / sum(sizes)


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    found = [series for series in run.heard().logged.values() if series.whole is not None]
    if not found:
        raise CannotJudge("validation logs no value that is made of all samples of a batch")
    for series in found:
        apart = abs(series.mean - series.whole)
        if isfinite(apart) and apart > limits.max_apart * abs(series.whole):
            yield Hit(
                f"{series.name} is the mean of what {series.values[0].name} makes of each of {len(series.sizes)} "
                f"batches, {series.mean:.4g}; of all samples it makes {series.whole:.4g}",
                series.place,
            )


def rooted(more: float) -> Example:
    """Log the root of an error of two batches, of which the second has so much more."""

    class Rooted(Validated):
        def validation_step(self, batch: list, batch_idx: int) -> None:
            error = torch.full((len(batch[1]),), 1 + more * batch_idx).mean()
            self.log("val/rmse", torch.sqrt(error), batch_size=len(batch[1]))

    return several_steps(Rooted, 16)


class OfCodes(Validated):
    """Logs how many of its codes a batch makes use of, as quantised autoencoders do: no mean is in that."""

    def validation_step(self, batch: list, batch_idx: int) -> None:
        uses = functional.one_hot(batch[1] * (batch_idx > 0), 4).float().mean(0)
        self.log("val/perplexity", torch.exp(-torch.sum(uses * torch.log(uses + 1e-10))))
        self.log("val/even", torch.sqrt(uses.mean()))


PROBE = Probe(
    question="Is each validation metric computed from all samples, and not averaged over batches?",
    why="errors and accuracies may be averaged over batches; an F1 score, AUROC, RMSE or perplexity of all samples is "
    "not the mean of those of the batches, which changes with batch size and order",
    severity=WARNING,
    listener=BatchMeans,
    detect=detect,
    fix=Fix(
        "log the metric itself, self.log(name, metric), after metric.update(...); or collect answers, and compute once "
        "in on_validation_epoch_end"
    ),
    thresholds={
        "max_apart": Threshold(0.01, "relative: training runs are told apart by less than a hundredth", factor=1.5)
    },
    faulty=rooted(1.0),
    healthy=rooted(0.7),
    also_healthy=(several_steps(OfCodes, 16),),
)
