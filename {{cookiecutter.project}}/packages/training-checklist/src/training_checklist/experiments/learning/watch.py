"""What epochs show from outside: layers in the wrong mode, and logged values that are not what their name says."""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.overrides import TorchFunctionMode
from torchmetrics import CatMetric, MaxMetric, Metric, MinMetric, SumMetric
from torchmetrics.wrappers.abstract import WrapperMetric

from training_checklist.engines.batches import tensors
from training_checklist.engines.criterion_calls import CriterionCalls, wrap
from training_checklist.engines.observe import Logits, Places
from training_checklist.lightning import Callback, LightningModule, Trainer

ROUNDING = 1e-5  # relative
DEFAULT_MOMENTUM = 0.1  # of torch's BatchNorm
DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}
WITH_DROPOUT = (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)
OVER_EPOCHS = (MaxMetric, MinMetric, SumMetric, CatMetric, WrapperMetric)  # may be meant to remember

Series = list[tuple[float, int]]  # a batch's value and its size


class DropoutCalls(TorchFunctionMode):
    """While it is entered, places where dropout is at work are recorded, also where no module does it."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self.all_places = Places(root)
        self.places: dict[str, None] = {}

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if name in DROPOUTS and getattr(function, "__module__", "") == "torch.nn.functional":
            probability = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
            if probability and kwargs.get("training", args[2] if len(args) > 2 else True):
                self.places[self.all_places.near()] = None
        if name == "scaled_dot_product_attention" and kwargs.get("dropout_p", args[4] if len(args) > 4 else 0):
            self.places[self.all_places.near()] = None
        return function(*args, **kwargs)


class EpochWatch(Callback):
    """Watches the epochs of a run; `fail` and `warn` are told (what, where, why, fix).

    Args:
        limits: of `Learning`.
        batches: that the whole training has.
    """

    def __init__(
        self,
        pl_module: LightningModule,
        limits: dict[str, float],
        fail: Callable[..., None],
        warn: Callable[..., None],
        batches: float,
    ) -> None:
        self.limits, self.fail, self.warn = limits, fail, warn
        self._judge_layers(pl_module, batches)
        self.epochs: list[dict[str, Series]] = []
        self.loaders = 1
        self.misjudged: set[str] = set()  # names of logged values
        self.mixed: set[str] = set()  # paths of metrics
        self.before: dict[str, dict[str, int]] = {"training": {}, "validation": {}}
        self.batches = {"training": 0, "validation": 0}
        self.wrong: dict[str, dict[str, None]] = {"live": {}, "asleep": {}, "small": {}}
        self.logits, self.criteria, self.dropouts = (
            Logits(pl_module),
            CriterionCalls(pl_module),
            DropoutCalls(pl_module),
        )
        pl_module.__dict__["validation_step"] = wrap(pl_module.validation_step, (self.criteria, self.dropouts))
        self.restore: list[Callable[[], Any]] = [
            self.logits.remove,
            partial(pl_module.__dict__.pop, "validation_step", None),
        ]
        for path, module in pl_module.named_modules():
            if isinstance(module, (_BatchNorm, *WITH_DROPOUT)):
                hook = partial(self._look_at_mode, path, pl_module)
                self.restore.append(module.register_forward_pre_hook(hook).remove)
            if isinstance(module, Metric) and not isinstance(module, OVER_EPOCHS):
                self._watch_metric(path, module)

    def _judge_layers(self, pl_module: LightningModule, batches: float) -> None:
        """Judge what can be told of layers before they run."""
        late, without, dropping = {}, {}, {}
        for path, module in pl_module.named_modules():
            if isinstance(module, _BatchNorm) and trainable(path, pl_module):
                momentum = DEFAULT_MOMENTUM if module.momentum is None else module.momentum
                if not module.track_running_stats:
                    without[path] = None
                elif momentum < DEFAULT_MOMENTUM and (1 - momentum) ** batches > 0.5 and is_new(module):
                    late[path] = None
            if isinstance(module, nn.modules.dropout._DropoutNd) and module.p > self.limits["max_dropout"]:
                dropping[path] = module.p
        if late:
            momentum = pl_module.get_submodule(next(iter(late))).momentum
            self.fail(
                f"after all {batches:g} batches {(1 - momentum) ** batches:.0%} of the running statistics of "
                f"{shown(late)} are still what they began with",
                f"{shown(late)}: momentum={momentum:g}",
                "validation normalises by them, and sees other inputs than training does",
                "momentum=0.1, which is torch's default",
            )
        if without:
            self.warn(
                f"{shown(without)} keeps no running statistics, and normalises by the batch in validation, too",
                f"{shown(without)}: track_running_stats=False",
                "what it answers for a sample depends on the others beside it, and one alone has no variance",
                "track_running_stats=True, or GroupNorm or LayerNorm",
            )
        if dropping:
            most = max(dropping.values())
            self.warn(
                f"{shown(dropping)} drops {most:.0%} of its inputs",
                f"{shown(dropping)}: p={most:g}",
                "hardly anything of a sample is left to learn from; p is the share that is dropped, not kept",
                "p from 0.1 to 0.5",
            )

    def remove(self) -> None:
        """Leave the module as it was, and tell what was seen in passing."""
        for undo in self.restore:
            undo()
        for place in self.dropouts.places:
            why = "each pass over the same data gives another result, worse than what the network can do"
            fix = "F.dropout(x, p, training=self.training), nn.Dropout, or no train() in validation"
            self.fail("dropout is at work during validation", place, why, fix)
        if self.wrong["live"]:
            what = f"{shown(self.wrong['live'])}.training is True during validation"
            why = "it normalises by the batch and not by its running statistics, and learns from validation data"
            self.fail(what, shown(self.wrong["live"]), why, "no train() in validation; Lightning switches modes itself")
        if self.wrong["asleep"]:
            what = f"{shown(self.wrong['asleep'])}.training is False while its parameters train"
            why = (
                "dropout does nothing then, and BatchNorm keeps its first statistics; Lightning leaves eval() as it is"
            )
            self.fail(what, shown(self.wrong["asleep"]), why, "no eval() outside of validation, or train() before fit")
        if self.wrong["small"]:
            what = f"a batch has {self.smallest} samples, of which {shown(self.wrong['small'])} takes mean and variance"
            why = "statistics of so few samples are noise, and validation uses others"
            fix = "python train.py +debug=learning data.batch_size=32, or GroupNorm or LayerNorm"
            self.fail(what, shown(self.wrong["small"]), why, fix)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._count("training", batch_idx, pl_module)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if dataloader_idx == 0:
            self._count("validation", batch_idx, pl_module)
        self.loaders = max(self.loaders, dataloader_idx + 1)
        self.criteria.criteria.clear()

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epochs.append({"loss": [], "accuracy": []})

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        size, calls = len(next(tensors(batch))), self.criteria.criteria
        if len(calls) == 1 and calls[0].result is not None and calls[0].result.ndim == 0:
            self.epochs[-1]["loss"].append((float(calls[0].result), size))
        accuracy = self.logits.accuracy(batch)
        if accuracy is not None:
            self.epochs[-1]["accuracy"].append((accuracy, size))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.loaders > 1:
            return
        results = trainer.fit_loop.epoch_loop.val_loop._results
        for name in {result.meta.name for result in results.values()} & set(trainer.callback_metrics):
            for kind, series in self.epochs[-1].items():
                if kind == "loss" or ("acc" in name.lower() and not self.mixed):
                    self._judge_value(name, float(trainer.callback_metrics[name]), kind, series)

    def _judge_value(self, name: str, value: float, kind: str, series: Series) -> None:
        if not series or same(value, mean(series)) or name in self.misjudged:
            return
        others = {"the mean over batches, whatever their size": mean([(each, 1) for each, _ in series])}
        if kind == "loss":  # an accuracy is too easily the same by chance
            others["the value of the last batch alone"] = series[-1][0]
        if len(self.epochs) > 1:
            others["the mean over all epochs so far"] = mean([pair for epoch in self.epochs for pair in epoch[kind]])
        for meaning, other in others.items():
            if same(value, other) and abs(other - mean(series)) > self.limits["min_bias"] * abs(mean(series)):
                self.misjudged.add(name)
                sizes = f"{series[0][1]} to {series[-1][1]} samples" if series[0][1] != series[-1][1] else "equal size"
                self.fail(
                    f"{name} is {value:.4g}, {meaning}; over samples it is {mean(series):.4g} "
                    f"({len(series)} batches of {sizes})",
                    f"self.log({name!r}, ...) in validation",
                    "runs and checkpoints are compared by a number that depends on how the data were cut",
                    f"self.log({name!r}, value, batch_size=len(labels)), or a metric of torchmetrics, reset each epoch",
                )
                return

    def _look_at_mode(self, path: str, pl_module: LightningModule, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        trainer, normalises = pl_module.trainer, isinstance(module, _BatchNorm)
        if not normalises and not getattr(module, "p", getattr(module, "dropout", 0)):
            return
        if trainer.validating and module.training and (module.track_running_stats if normalises else False):
            self.wrong["live"][path] = None
        elif trainer.training and not module.training and trainable(path, pl_module):
            self.wrong["asleep"][path] = None
        elif trainer.training and module.training and normalises and self._is_small(inputs[0], trainer):
            self.smallest = len(inputs[0])
            self.wrong["small"][path] = None

    def _is_small(self, inputs: Tensor, trainer: Trainer) -> bool:
        # Of the first batch: the last one of an epoch may be short. SyncBatchNorm adds up the batches of all ranks.
        is_first = self.batches["training"] == 1 and trainer.world_size == 1
        return is_first and len(inputs) < self.limits["min_norm_samples"]

    def _watch_metric(self, path: str, metric: Metric) -> None:
        inner = metric.compute

        def compute(*arguments: Any, **options: Any) -> Any:
            for stage, before in self.before.items():
                known, batches = before.get(path, 0), self.batches[stage]
                if known and batches > 1 and metric._update_count >= known + batches and path not in self.mixed:
                    self.mixed.add(path)
                    self.fail(
                        f"{path} holds {known} updates when a {stage} epoch begins, and {batches} batches add to them",
                        f"{path} ({type(metric).__name__})",
                        "its value mixes epochs, or training with validation",
                        f"self.{path}.reset() at the end of each epoch, and a metric of its own for each stage",
                    )
            return inner(*arguments, **options)

        metric.compute = compute
        self.restore.append(partial(setattr, metric, "compute", inner))

    def _count(self, stage: str, batch_idx: int, pl_module: LightningModule) -> None:
        self.batches[stage] = batch_idx + 1
        if batch_idx == 0:
            metrics = ((path, module) for path, module in pl_module.named_modules() if isinstance(module, Metric))
            self.before[stage] = {path: metric._update_count for path, metric in metrics}


def is_new(norm: _BatchNorm) -> bool:
    """Whether a norm's running statistics are those that it was made with."""
    return not bool(norm.running_mean.any()) and bool((norm.running_var == 1).all())


def mean(series: Series) -> float:
    return sum(value * size for value, size in series) / sum(size for _, size in series)


def same(one: float, other: float) -> bool:
    return abs(one - other) <= ROUNDING * max(abs(one), abs(other))


def shown(paths: dict[str, None]) -> str:
    return ", ".join(list(paths)[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def trainable(path: str, root: nn.Module) -> bool:
    """Whether the innermost module around a path that has parameters has one that trains."""
    while not list(root.get_submodule(path).parameters()) and path:
        path = path.rpartition(".")[0]
    return any(parameter.requires_grad for parameter in root.get_submodule(path).parameters())
