"""Metrics of torchmetrics in two epochs: what they are given, and what they hold when their value is computed."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

from torch import Tensor
from torchmetrics import CatMetric, MaxMetric, Metric, MinMetric, SumMetric
from torchmetrics.metric import CompositionalMetric
from torchmetrics.wrappers.abstract import WrapperMetric

from training_checklist.engines.own_code import pass_on
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.epochs import EpochListener
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import LightningModule, Trainer

PAIR = {"preds", "target"}  # as torchmetrics names what most of its metrics compare
OVER_EPOCHS = (MaxMetric, MinMetric, SumMetric, CatMetric, WrapperMetric)  # may be meant to remember
RANKS = ("AUROC", "AveragePrecision", "ROC", "PrecisionRecallCurve", "CalibrationError")  # in the name of a metric


class MetricListener(EpochListener):
    """A listener that sees calls of the module's metrics before they are made.

    Attributes:
        batch: which training or validation takes now.
    """

    batch: Any = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch = batch

    def on_validation_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: int) -> None:
        self.batch = batch

    def metrics(self) -> Iterator[tuple[str, Metric]]:
        modules = self.run.pl_module.named_modules()
        return ((path, module) for path, module in modules if isinstance(module, Metric))

    def before_call(self, metric: Metric, method: str, look: Callable[..., None]) -> None:
        """Let a function see the arguments of each call of a method."""
        inner = getattr(metric, method)

        @wraps(inner)
        def watched(*arguments: Any, **options: Any) -> Any:
            self.safely(look, *arguments, **options)
            return pass_on(inner, *arguments, **options)

        self._around = watched.__code__
        self.put(metric, method, watched)

    def place(self, path: str, metric: Metric) -> Place:
        """Return where the project makes the call that is looked at now, with the metric."""
        return self.caller().beside(module=f"{path} ({type(metric).__name__})")

    def put(self, metric: Metric, method: str, function: Callable[..., Any]) -> None:
        """Put a function in the place of a method, until the epochs are over."""
        self.watching.callback(setattr, metric, method, getattr(metric, method))
        setattr(metric, method, function)

    def before_update(self, look: Callable[[str, Metric, dict[str, Any]], None]) -> None:
        """Let a function see path, metric and arguments of each update that compares one tensor with another."""
        for path, metric in self.metrics():
            self.before_call(
                metric, "update", partial(self._bind, path, metric, inspect.signature(metric.update), look)
            )

    def _bind(
        self, path: str, metric: Metric, takes: inspect.Signature, look: Any, *arguments: Any, **options: Any
    ) -> None:
        try:
            given = takes.bind(*arguments, **options).arguments
        except TypeError:  # which the call itself will say
            return
        if given.keys() >= PAIR and all(isinstance(given[name], Tensor) for name in PAIR):  # and no lists of boxes
            look(path, metric, given)


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


def updates_held(metric: Metric) -> int:
    """Return how many updates the states of a metric hold; a `reset` of the project's own may leave the counter."""
    states = ((getattr(metric, name), default) for name, default in metric._defaults.items())
    # A collection updates one metric for all that share its states, and leaves the counters of the others.
    return 0 if all(is_default(state, default) for state, default in states) else max(metric._update_count, 1)


def is_default(state: Any, default: Any) -> bool:
    if isinstance(state, Tensor) and isinstance(default, Tensor):
        return state.shape == default.shape and bool((state.cpu() == default.cpu()).all())
    return isinstance(state, list) and not state


class MetricStates(MetricListener):
    """Keeps `states`, by the metric's path."""

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.states: dict[str, MetricState] = {}
        self.updates: dict[str, dict[str, int]] = {"training": {}, "validation": {}}
        self.batches = {"training": 0, "validation": 0}  # of the present epoch
        for path, metric in self.metrics():
            if not isinstance(metric, (*OVER_EPOCHS, CompositionalMetric)):  # (a + b) / 2 holds nothing of its own
                self.before_call(metric, "compute", partial(self._look, path, metric))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        super().on_train_batch_start(trainer, pl_module, batch, batch_idx)
        self._begin("training", batch_idx)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        super().on_validation_batch_start(trainer, pl_module, batch, batch_idx)
        if dataloader_idx == 0:
            self._begin("validation", batch_idx)

    def _begin(self, stage: str, batch_idx: int) -> None:
        self.batches[stage] = batch_idx + 1
        if batch_idx == 0:
            self.updates[stage] = {path: updates_held(metric) for path, metric in self.metrics()}

    def _look(self, path: str, metric: Metric, *arguments: Any, **options: Any) -> None:
        for stage, before in self.updates.items():
            seen, batches = self.states.get(path), self.batches[stage]
            held = metric._update_count or updates_held(metric)
            is_read_again = seen is not None and seen.held and not held  # Lightning does, after a hook's reset
            if batches > 1 and not is_read_again and (seen is None or not seen.is_mixed):
                self.states[path] = MetricState(path, type(metric).__name__, stage, before.get(path, 0), batches, held)


@dataclass
class RankedScores:
    """What a metric that ranks samples by their scores was given: an area under a curve, an average precision.

    Args:
        distinct: different scores, at most, of one class in one batch.
        samples: of all batches.
        beyond: how many batches had scores below 0 or above 1; within: how many had none.
        lowest: score of all.
        tied: whether scores that differ have one sigmoid, so far beyond 1 they are.
    """

    path: str
    type: str
    distinct: int = 0
    samples: int = 0
    beyond: int = 0
    within: int = 0
    lowest: float = 0.0
    tied: bool = False
    place: Place = NOWHERE


class RankingMetrics(MetricListener):
    """Keeps `scores`, by the metric's path."""

    def __init__(self, run: TwoEpochs) -> None:
        super().__init__(run)
        self.scores: dict[str, RankedScores] = {}
        self.before_update(self._look)

    def _look(self, path: str, metric: Metric, given: dict[str, Any]) -> None:
        name, scores = type(metric).__name__, given["preds"].detach()
        if not any(each in name for each in RANKS):
            return
        rows = scores.movedim(1, 0).flatten(1) if scores.ndim > 1 else scores[None]
        if path not in self.scores:
            self.scores[path] = RankedScores(path, name, place=self.caller())
        found = self.scores[path]
        found.distinct = max(found.distinct, *(len(row.unique()) for row in rows))
        found.samples += rows.shape[1]
        if rows.numel() and type(metric).__module__.startswith("torchmetrics."):
            low, high = rows.aminmax()
            found.lowest = min(found.lowest, float(low))
            # In float32: sigmoids of 16 bits are the same for scores near 1, too.
            found.tied |= any(len(row.float().sigmoid().unique()) < len(row.unique()) for row in rows)
            within = bool(low >= 0) and bool(high <= 1)
            found.within, found.beyond = found.within + within, found.beyond + (not within)
