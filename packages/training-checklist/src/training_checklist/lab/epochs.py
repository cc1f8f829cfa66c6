"""What epochs show from outside: the modes of layers, and logged values that are not what their name says."""

from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import batch_size, tensors
from training_checklist.engines.criteria import Criteria
from training_checklist.engines.dropouts import DropoutCalls
from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.hooks import hooks_of
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.tracer import Tracer
from training_checklist.engines.uncopied import after_forward, before_forward
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.averages import Averages
from training_checklist.lab.batch_means import BatchMeans
from training_checklist.lab.between_epochs import BetweenEpochs
from training_checklist.lab.inferred_sizes import SizesOf
from training_checklist.lab.metrics import Metrics
from training_checklist.lab.mode_switches import Switches
from training_checklist.lab.shared import once
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import Callback, LightningModule, Trainer, is_overridden

Series = list[tuple[float, int]]  # a batch's value and its number of samples
WITH_DROPOUT = (nn.modules.dropout._DropoutNd, nn.RNNBase, nn.MultiheadAttention)
AROUND = (
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_model_eval",
    "on_validation_epoch_end",
    "on_validation_end",
)


@dataclass
class Modes:
    """Layers that behave differently in training and in validation, by the mode that they were in.

    Args:
        live: in training mode during validation.
        asleep: in eval mode while they train, together with what is around them.
        put_to_sleep: the line of the project that has put the first of them into eval mode.
        others: likewise, in training mode: the layers that are not asleep.
        drops: where dropout is at work during validation.
        few: norms with the numbers of samples and of values for each channel in the first batch.
        shared: whether other ranks have their own part of the batch.
        unmoved: norms that evaluate by running statistics of 0 and 1, and have weights that are not those of the start.
    """

    live: list[str] = field(default_factory=list)
    asleep: list[str] = field(default_factory=list)
    put_to_sleep: Place = NOWHERE
    others: list[str] = field(default_factory=list)
    drops: list[Place] = field(default_factory=list)
    few: dict[str, tuple[int, int]] = field(default_factory=dict)
    shared: bool = False
    unmoved: list[str] = field(default_factory=list)


@dataclass
class WeightsOverValidation:
    """The parameters before validation, during it, and when training goes on.

    Args:
        changed: those that training goes on with as validation had them, and not as they were before.
        total: how many there are.
        place: of hooks around validation that the project has.
    """

    changed: list[str]
    total: int
    place: Place = NOWHERE


@dataclass
class Validated:
    """What validation has seen of its first batch, by epoch.

    Args:
        answers: digest of what each outermost module with parameters has returned, by its path.
        batches: digest of the batch.
        weights: digest of all parameters.
    """

    answers: list[dict[str, str]] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)


@dataclass
class Logged:
    """A value that validation has logged at the end of an epoch.

    Args:
        kind: of the series: "loss" or "accuracy".
        epochs: of each epoch so far the value of each batch.
    """

    name: str
    value: float
    kind: str
    epochs: list[Series]


class EpochWatch(Callback):
    """Watches the epochs of a run. `evidence` is what it has seen.

    Args:
        steps: of the optimizer in the whole training, of which these epochs are the beginning.
        switches: what is known of calls of eval() so far.
    """

    def __init__(self, pl_module: LightningModule, steps: float, switches: Switches) -> None:
        self.root, self.averages = type(pl_module).__name__, Averages(pl_module, steps)
        self.modes = Modes()
        self.epochs: list[dict[str, Series]] = []
        self.loaders = 1
        self.logged: dict[tuple[str, str], Logged] = {}  # of the last epoch
        self.metrics, self.between = Metrics(pl_module), BetweenEpochs()
        self.criteria, self.drops = Criteria(), DropoutCalls()
        self.watching = ExitStack()
        self.watching.callback(self.averages.watching.close)
        self.means = BatchMeans(pl_module)
        self.watching.enter_context(self.metrics)
        self.watching.enter_context(self.means)
        self.sizes = self.watching.enter_context(SizesOf(pl_module))
        self.in_validation = Inside()
        self.watching.enter_context(self.between.drawn)
        if is_overridden("validation_step", pl_module):
            tracer = Tracer(pl_module, self.criteria, self.drops, self.means)
            around = around_step(pl_module, self.in_validation, tracer, step="validation_step")
            self.watching.enter_context(around)
        self.in_step = Inside(partial(self._look_at_root, pl_module))
        self.watching.enter_context(around_step(pl_module, self.in_step))
        self.switches = switches
        self.validated = Validated()
        self.weights: dict[str, dict[str, str]] = {}  # digests of parameters by when they were taken
        self.over_validation: WeightsOverValidation | None = None
        for path, module in pl_module.named_children():
            if any(True for _ in module.parameters()):
                hook = partial(self._keep_answer, path, pl_module)
                self.watching.callback(after_forward(module, hook).remove)
        for path, module in pl_module.named_modules():
            if isinstance(module, (_BatchNorm, *WITH_DROPOUT)):
                hook = partial(self._look_at_mode, path, pl_module)
                self.watching.callback(before_forward(module, hook).remove)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the weights when the loop of validation is entered, before any hook."""
        self.between.begin_epoch(trainer, pl_module)
        loop = trainer.fit_loop.epoch_loop.val_loop
        if "run" in vars(loop):
            return
        run = loop.run

        def after_a_look() -> Any:
            self.weights["before"] = digests(pl_module)
            return pass_on(run)

        loop.run = after_a_look
        self.watching.callback(vars(loop).pop, "run", None)

    def finish(self) -> "EpochWatch":
        """Sum up what was seen."""
        self.modes.drops = self.drops.places
        if len(self.modes.asleep) > 1:  # its layers tell more
            self.modes.asleep = [each for each in self.modes.asleep if each != self.root]
        return self

    def means_of_epochs(self) -> list[Logged]:
        """Return logged values of which it is known what they are made of; a metric may mix epochs."""
        return [each for each in self.logged.values() if each.kind == "loss" or not self.metrics.mixed]

    def close(self) -> None:
        """Leave the module as it was."""
        self.watching.close()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.metrics.begin("training", batch_idx, batch)
        self.between.begin_step(trainer, pl_module, batch_idx)
        if "within" in self.weights:
            self._compare_weights(trainer, pl_module)
        self.weights.clear()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self.between.end_step(trainer)
        self.averages.look(trainer, pl_module)
        if self.metrics.batches["training"] == 1:
            self.averages.look_for_aliases(trainer, pl_module)

    def _compare_weights(self, trainer: Trainer, pl_module: LightningModule) -> None:
        before, within, now = self.weights["before"], self.weights["within"], digests(pl_module)
        after = self.weights.get("after", within)  # a batch of validation, which may have moved a teacher
        changed = [
            name
            for name, known in now.items()
            if known != before.get(name) and (known == within.get(name) or after.get(name) != within.get(name))
        ]
        if self.over_validation is None or changed:
            self.over_validation = WeightsOverValidation(changed, len(now), hooks_of(trainer, pl_module, AROUND))

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if dataloader_idx == 0:
            self.sizes.begin(trainer.val_dataloaders, batch, batch_idx)
            self.metrics.begin("validation", batch_idx, batch)
            if batch_idx == 0:
                self.averages.look_for_aliases(trainer, pl_module)
            if batch_idx == 0 and "before" in self.weights:
                self.weights["within"] = digests(pl_module)
            if batch_idx == 0:
                self.validated.answers.append({})
                self.validated.batches.append(digest_of(batch))
                self.validated.weights.append(digest_of([weight.detach() for weight in pl_module.parameters()]))
        self.loaders = max(self.loaders, dataloader_idx + 1)
        self.criteria.calls.clear()
        self.drops.made.clear()
        self.means.begin(batch_size(batch) if self.loaders == 1 else None)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.epochs.append(defaultdict(list))
        self.means.begin_epoch()

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        self.means.end()
        self.sizes.end()
        if "within" in self.weights and "after" not in self.weights:
            self.weights["after"] = digests(pl_module)
        size, calls = batch_size(batch), list(self.criteria.calls)
        if size is None or not self.epochs:
            return
        if len(calls) == 1 and calls[0].result is not None and calls[0].result.ndim == 0:
            self.epochs[-1]["loss"].append((float(calls[0].result), size))
        call = self.criteria.classification
        if call is not None and call.accuracy is not None and len(call.target) == size:
            self.epochs[-1]["accuracy"].append((call.accuracy, size))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.loaders > 1 or not self.epochs:
            return
        results = trainer.fit_loop.epoch_loop.val_loop._results
        for name in {result.meta.name for result in results.values()} & set(trainer.callback_metrics):
            value = trainer.callback_metrics[name]
            for kind in self.epochs[-1] if value.numel() == 1 else ():
                if kind == "loss" or "acc" in name.lower():
                    series = [epoch[kind] for epoch in self.epochs]
                    self.logged[name, kind] = Logged(name, float(value), kind, series)

    def _keep_answer(self, path: str, pl_module: LightningModule, module: nn.Module, inputs: Any, output: Any) -> None:
        first = pl_module.trainer.validating and self.metrics.batches["validation"] == 1 and self.validated.answers
        if first and any(True for _ in tensors(output)):
            self.validated.answers[-1][path] = digest_of(output)  # of its last call in this batch

    def _look_at_root(self, pl_module: LightningModule) -> None:
        """Layers that torch computes as one, as those of attention in eval mode, are not called one by one."""
        modes = [module.training for module in pl_module.modules() if isinstance(module, (_BatchNorm, *WITH_DROPOUT))]
        if not pl_module.training and modes and not any(modes) and self.root not in self.modes.asleep:
            self.modes.asleep.append(self.root)
            self.modes.put_to_sleep = self.switches.by.get(id(pl_module), NOWHERE)

    def _look_at_mode(self, path: str, pl_module: LightningModule, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        trainer, normalises = pl_module.trainer, isinstance(module, _BatchNorm)
        if not normalises and not getattr(module, "p", getattr(module, "dropout", 0)):
            return
        found = None
        if self.in_validation.entered:  # a hook may have norms take in training samples beside it
            if normalises and not module.training and has_never_seen_data(module) and path not in self.modes.unmoved:
                self.modes.unmoved.append(path)
            found = self.modes.live if module.training and (not normalises or module.track_running_stats) else None
        elif self.in_step.entered and trainable(path, pl_module):  # hooks may look at answers in eval mode beside it
            around = pl_module.get_submodule(path.rpartition(".")[0])
            # A norm alone in eval mode keeps its statistics on purpose; dropout alone is rather forgotten.
            asleep = not module.training and (not around.training or not normalises)
            found = self.modes.asleep if asleep else self.modes.others
            if (
                normalises
                and module.training
                and self.metrics.batches["training"] == 1
                and isinstance(inputs[0], Tensor)
            ):
                # Of the first batch: the last one of an epoch may be short. SyncBatchNorm adds up all ranks' batches.
                self.modes.shared = trainer.world_size > 1
                self.modes.few.setdefault(path, (len(inputs[0]), inputs[0].numel() // module.num_features))
        if found is not None and path not in found:
            found.append(path)
            if found is self.modes.asleep and self.modes.put_to_sleep == NOWHERE:
                self.modes.put_to_sleep = self.switches.by.get(id(module), NOWHERE)


class Inside:
    """Whether it is entered; `begin` is called each time that it is."""

    entered = False

    def __init__(self, begin: Callable[[], None] = lambda: None) -> None:
        self.begin = begin

    def __enter__(self) -> None:
        self.entered = True
        self.begin()

    def __exit__(self, *error: object) -> None:
        self.entered = False


def digests(pl_module: LightningModule) -> dict[str, str]:
    """Return what tells weights, those of a teacher too, from others."""
    return {name: digest_of(each.detach()) for name, each in pl_module.named_parameters()}


def has_never_seen_data(norm: _BatchNorm) -> bool:
    """Whether the running statistics of a norm are those that it was made with, and its weights are others."""
    if norm.running_mean is None or norm.weight is None or norm.running_mean.any():
        return False
    return bool((norm.running_var == 1).all()) and not bool((norm.weight == 1).all())


@dataclass
class Norm:
    """One BatchNorm that trains.

    Args:
        momentum: None: its statistics are the mean of all batches.
        tracks: whether it keeps running statistics.
        is_new: whether these are still what it was made with.
        batches: of the whole training.
    """

    path: str
    momentum: float | None
    tracks: bool
    is_new: bool
    batches: float


@once
def norms(run: TwoEpochs) -> list[Norm]:
    """Return what can be told of BatchNorms that train, before they run."""
    batches, found = run.trainer.estimated_stepping_batches * run.trainer.accumulate_grad_batches, []
    for path, module in run.pl_module.named_modules():
        if isinstance(module, _BatchNorm) and trainable(path, run.pl_module):
            tracks = module.track_running_stats and module.running_mean is not None
            new = tracks and not bool(module.running_mean.any()) and bool((module.running_var == 1).all())
            found.append(Norm(path, module.momentum, tracks, new, batches))
    return found


def trainable(path: str, root: nn.Module) -> bool:
    """Whether the innermost module around a path that has parameters has one that trains."""
    while not list(root.get_submodule(path).parameters()) and path:
        path = path.rpartition(".")[0]
    return any(parameter.requires_grad for parameter in root.get_submodule(path).parameters())
