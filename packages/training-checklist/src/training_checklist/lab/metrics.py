"""Metrics in the epochs of a run: what they are given, what they keep, and when they are asked."""

import inspect
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchmetrics import CatMetric, MaxMetric, Metric, MinMetric, SumMetric
from torchmetrics.wrappers.abstract import WrapperMetric

from training_checklist.engines.batches import leaves, same
from training_checklist.engines.fingerprints import digest
from training_checklist.engines.own_code import is_own_class, pass_on
from training_checklist.engines.places import Places, of_function
from training_checklist.finding import NOWHERE, Place
from training_checklist.lightning import LightningModule

PAIR = {"preds", "target"}  # as torchmetrics names what most of its metrics compare
OVER_EPOCHS = (MaxMetric, MinMetric, SumMetric, CatMetric, WrapperMetric)  # may be meant to remember
RANKS = re.compile("AUROC|AveragePrecision|ROC|PrecisionRecallCurve|CalibrationError")  # in the name of a metric
FEW = 8  # numbers, of which any two tensors may have the same differences by chance
ROUNDING = 1e-6  # of a correlation: float32 keeps 7 digits, and predictions that are as near have nothing to learn
OF_EVERY_METRIC = {*vars(SumMetric()), "compute", "update"}


@dataclass
class MetricState:
    """A metric when its value is computed.

    Args:
        known: updates that it held when the epoch began.
        batches: that have come since.
        held: updates that it holds now.
    """

    path: str
    type: str
    stage: str
    known: int
    batches: int
    held: int

    @property
    def is_mixed(self) -> bool:
        """Whether it has begun an epoch with what another one has left."""
        return self.known > 0 and self.held >= self.known + self.batches


@dataclass
class MetricArguments:
    """What a metric makes of predictions and targets of one batch, and of the same two exchanged.

    Args:
        first: place in the batch of what it is given as predictions, "" where they are no part of the batch.
        second: likewise of the targets.
        value: as it is asked; exchanged: the other way round. None where that cannot be computed.
    """

    path: str
    type: str
    first: str
    second: str
    value: float | None = None
    exchanged: float | None = None
    place: Place = NOWHERE


@dataclass
class RankedScores:
    """What a metric that ranks samples by their scores was given: an area under a curve, an average precision.

    Args:
        distinct: different scores, at most, of one class in one batch.
        samples: of all batches.
        beyond: how many batches had scores below 0 or above 1; within: how many had none.
        lowest: score of all.
    """

    path: str
    type: str
    distinct: int
    samples: int
    beyond: int = 0
    within: int = 0
    lowest: float = 0.0
    place: Place = NOWHERE


@dataclass
class PlainState:
    """What one update of a metric of the project changes beside the states that it has registered.

    Args:
        changed: names of attributes; the class has no reset of its own, which could clear them.
        place: of its `update`.
    """

    path: str
    type: str
    changed: list[str]
    place: Place = NOWHERE


class Metrics:
    """Watches the metrics of a module while it is entered.

    Attributes:
        batches: that have come in the present epoch, by stage.
    """

    def __init__(self, pl_module: LightningModule) -> None:
        self.module = pl_module
        self.states: dict[str, MetricState] = {}
        self.arguments: dict[str, MetricArguments] = {}
        self.plain: dict[str, PlainState] = {}
        self.ranked: dict[str, RankedScores] = {}
        self.updates: dict[str, dict[str, int]] = {"training": {}, "validation": {}}
        self.batches = {"training": 0, "validation": 0}
        self.batch: Any = None
        self.watching = ExitStack()

    @property
    def mixed(self) -> bool:
        return any(state.is_mixed for state in self.states.values())

    def begin(self, stage: str, batch_idx: int, batch: Any) -> None:
        """Say which batch comes."""
        self.batch, self.batches[stage] = batch, batch_idx + 1
        if batch_idx == 0:
            self.updates[stage] = {path: metric._update_count for path, metric in self._all()}

    def __enter__(self) -> "Metrics":
        for path, metric in self._all():
            if not isinstance(metric, OVER_EPOCHS):
                self._watch_value(path, metric)
            self._watch_update(path, metric)
        return self

    def __exit__(self, *error: object) -> None:
        self.watching.close()
        self.batch = None

    def _all(self) -> Iterator[tuple[str, Metric]]:
        return ((path, module) for path, module in self.module.named_modules() if isinstance(module, Metric))

    def _scores(self, path: str, metric: Metric, scores: Tensor) -> RankedScores:
        rows = scores.detach().movedim(1, 0).flatten(1) if scores.ndim > 1 else scores.detach()[None]
        found = self.ranked.get(path)
        if found is None:
            found = RankedScores(path, type(metric).__name__, 0, 0, place=Places(self.module).here())
        found.distinct = max(found.distinct, *(len(row.unique()) for row in rows))
        found.samples += rows.shape[1]
        if rows.numel() and type(metric).__module__.startswith("torchmetrics."):
            low, high = rows.aminmax()
            found.lowest = min(found.lowest, float(low))
            within = bool(low >= 0) and bool(high <= 1)
            found.within, found.beyond = found.within + within, found.beyond + (not within)
        return found

    def _watch_value(self, path: str, metric: Metric) -> None:
        inner = metric.compute

        def compute(*arguments: Any, **options: Any) -> Any:
            for stage, before in self.updates.items():
                seen = self.states.get(path)
                if self.batches[stage] > 1 and (seen is None or not seen.is_mixed):
                    known, held = before.get(path, 0), metric._update_count
                    self.states[path] = MetricState(
                        path, type(metric).__name__, stage, known, self.batches[stage], held
                    )
            return pass_on(inner, *arguments, **options)

        metric.compute = compute
        self.watching.callback(setattr, metric, "compute", inner)

    def _watch_update(self, path: str, metric: Metric) -> None:
        inner, signature = metric.update, inspect.signature(metric.update)
        kept_aside = is_own_class(type(metric)) and type(metric).reset is Metric.reset

        def update(*arguments: Any, **options: Any) -> None:
            with suppress(TypeError):  # the call itself will say so
                given = signature.bind(*arguments, **options).arguments
                if given.keys() >= PAIR:
                    if RANKS.search(type(metric).__name__):
                        self.ranked[path] = self._scores(path, metric, given["preds"])
                    if path not in self.arguments:
                        self.arguments[path] = arguments_of(path, metric, given, leaves(self.batch), self.module)
            before = plain_values(metric) if kept_aside and path not in self.plain else None
            pass_on(inner, *arguments, **options)
            if before is not None:
                changed = [name for name, value in plain_values(metric).items() if value != before.get(name)]
                self.plain[path] = PlainState(path, type(metric).__name__, changed, of_function(type(metric).update))

        metric.update = update
        self.watching.callback(setattr, metric, "update", inner)


def plain_values(metric: Metric) -> dict[str, Any]:
    """Return what tells the values apart that a metric keeps beside its states."""
    found: dict[str, Any] = {}
    for name, value in vars(metric).items():
        if name in OF_EVERY_METRIC or name in metric._defaults:
            continue
        if isinstance(value, (list, dict, set)):
            found[name] = len(value)
        elif isinstance(value, Tensor):
            found[name] = digest(value)
        elif isinstance(value, (int, float)):
            found[name] = value
    return found


def arguments_of(
    path: str, metric: Metric, given: dict[str, Any], batch: dict[str, Tensor], pl_module: LightningModule
) -> MetricArguments:
    """Look where the arguments of a metric come from, and what it makes of them the other way round."""
    first, second = (
        next((place for place, leaf in batch.items() if isinstance(value, Tensor) and is_of(value, leaf)), "")
        for value in (given["preds"], given["target"])
    )
    found = MetricArguments(path, type(metric).__name__, first, second)
    if first and not second:
        found.place = Places(pl_module).here()
        with suppress(Exception):  # of a metric that takes them in one order only
            found.value = value_of(metric, given)
            found.exchanged = value_of(metric, given | {"preds": given["target"], "target": given["preds"]})
    return found


def is_of(value: Tensor, leaf: Tensor) -> bool:
    """Whether a tensor has the numbers of a part of the batch, or those in another unit: scaled and shifted."""
    if same(value, leaf):
        return True
    if (
        value.numel() != leaf.numel()
        or value.numel() < FEW
        or not (value.is_floating_point() and value.isfinite().all())
    ):
        return False
    pairs = torch.stack([value.flatten().double(), leaf.flatten().double()])
    return bool(pairs.std(1).min() > 0) and 1 - float(torch.corrcoef(pairs)[0, 1].abs()) < ROUNDING


def value_of(metric: Metric, given: dict[str, Any]) -> float:
    alone = metric.clone()
    alone.reset()
    alone.update(**given)
    return float(alone.compute())
