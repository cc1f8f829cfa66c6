"""Learning, looked at in short trainings on copies, and in two short epochs under watch."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from training_checklist import probes, session
from training_checklist.direction import COUNTED
from training_checklist.engines.lazy import has_lazy
from training_checklist.engines.nearest import logging_lines
from training_checklist.engines.own_code import is_own_class, pass_on
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import Finding
from training_checklist.lab.epochs import Epochs
from training_checklist.lab.mode_switches import ModeSwitches, Switches
from training_checklist.lab.schedules import (
    CallCounter,
    RatesOfGroups,
    Rehearsal,
    directions,
    rehearsal,
    validated,
)
from training_checklist.lab.trained_copies import batches, copies
from training_checklist.lab.two_epochs import BY_HAND, TwoEpochs
from training_checklist.lightning import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LightningModule,
    ModelCheckpoint,
    ProgressBar,
    Trainer,
    isolate_rng,
)
from training_checklist.probe import CannotJudge

IN_NAME = re.compile(r"\{([^:}]+)[:}]")  # as ModelCheckpoint reads its filename


class Learning(Experiment):
    """Trains copies of the network on a few batches, and lets the run have two short epochs under watch.

    A copy is trained as configured and, where the loss does not fall, with one thing changed after the other until it
    does. One that has learnt its batches is asked whether it prefers the true labels of samples that it has not seen
    to exchanged ones. Schedules are rehearsed for the length that was asked for.

    Args:
        samples: to train a copy on, and as many to judge it by.
        steps: of the optimizer in one attempt.
        max_steps: until a copy knows its samples by heart.
        min_fall: share of the loss in an attempt, from which on it falls.
        seconds: after which no further attempt begins.
        batches: of each of the run's two epochs.
    """

    item = "learning"
    shapes_run = True
    is_whole = True
    ends_with_fit = True
    begins_anew = True
    no_workers = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, Checkpoint, ProgressBar)

    def __init__(
        self,
        topics: Sequence[str],
        samples: int,
        steps: int,
        max_steps: int,
        min_fall: float,
        seconds: float,
        batches: int,
    ) -> None:
        super().__init__(topics)
        self.batches, self.rates = batches, RatesOfGroups()
        options = {"samples": samples, "steps": steps, "max_steps": max_steps, "min_fall": min_fall}
        self.make = partial(TwoEpochs, **options, seconds=seconds)
        self.run: TwoEpochs | None = None
        self.monitors: list[tuple[str, str]] = []
        self.named: list[tuple[str, str]] = []
        self.modes: list[tuple[str, str, str]] = []
        self.least_gains: dict[str, float] = {}
        self.epochs: Epochs | None = None
        self.counter: CallCounter | None = None
        # Of schedules that the module steps itself, by when it may turn out to do so.
        self.if_by_hand: dict[str, list[tuple[int, Rehearsal, list[float]]]] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self.monitors = [
                (type(callback).__name__, callback.monitor)
                for callback in trainer.callbacks
                if getattr(callback, "monitor", None) is not None
                and not (isinstance(callback, ModelCheckpoint) and callback.monitor in COUNTED)
                and not may_be_logged_later(callback, pl_module)
                and not stops_at_a_value_alone(callback, trainer)
            ]
            self.modes = [
                (type(callback).__name__, callback.monitor, callback.mode)
                for callback in trainer.callbacks
                if getattr(callback, "monitor", None) is not None and hasattr(callback, "mode")
            ]
            self.named = [
                (type(callback).__name__, name)
                for callback in trainer.callbacks
                if isinstance(callback, ModelCheckpoint)
                for name in IN_NAME.findall(callback.filename or "")
                if name not in (*COUNTED, callback.monitor)
            ]
            stoppers = [each for each in trainer.callbacks if isinstance(each, EarlyStopping)]
            self.least_gains = {each.monitor: abs(each.min_delta) for each in stoppers}
            self.watching.enter_context(self.rates)
            self.switches = ModeSwitches.current or self.watching.enter_context(Switches())
        super().setup(trainer, pl_module, stage)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if has_lazy(pl_module):  # they cannot be copied, and get their shapes where the user's own run has them from
            trainer.num_sanity_val_steps = 1

    def _ask(self, **known: Any) -> None:
        """Ask what can be answered now and was not before."""
        self.ask([probe for probe in self.probes if probe.id not in self.judged], self.run, **known)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.run = run = self.make(trainer, pl_module)
        run.switches = self.switches
        run.facts, steps = self.facts, trainer.estimated_stepping_batches
        by_hand = not pl_module.automatic_optimization or len(trainer.optimizers) != 1
        with isolate_rng():
            rehearsed = [] if by_hand else self._rehearse(trainer)
            if not pl_module.automatic_optimization and trainer.max_steps < 0 and not session.unlike_the_own_length():
                self.if_by_hand = {each: self._rehearse(trainer, each) for each in ("step", "epoch")}
            self._ask(
                untold=BY_HAND if by_hand else "",
                made_with=self.rates.made,
                peaks={key: rates for key, _, rates in rehearsed},
                of_other_length=(of_other_length := session.unlike_the_own_length()),
                rehearsed=[] if of_other_length else [each for _, each, _ in rehearsed],
            )
            if not by_hand:
                self._ask_about_a_batch()
            self._ask(is_sound=not self.has_found())
        if by_hand:
            run.notes.append(f"two epochs watched; {BY_HAND}")
        elif run.untrained:
            run.notes.append(run.untrained)
            self.skip(run.untrained)
        goes_on = self._shorten(trainer, steps * trainer.accumulate_grad_batches)
        kinds = [probe.listener for probe in self.probes if probe.listener is not None]
        self.epochs, self.counter = Epochs(run, kinds), CallCounter(trainer, goes_on)
        trainer.callbacks = [*trainer.callbacks, self.epochs]  # Lightning is going through the old list
        self.watching.callback(self.epochs.watching.close)
        self.watching.enter_context(self.counter.counting(pl_module))

    def _ask_about_a_batch(self) -> None:
        try:
            with copies(self.run):
                batch = batches(self.run)[0]
        except CannotJudge:  # which is said of all that copies are trained for
            return
        self._ask(batch=batch)

    def _rehearse(self, trainer: Trainer, interval: str | None = None) -> list[tuple[int, Rehearsal, list[float]]]:
        """Return the id of the optimizer of each schedule, how it will go, and the rates that it leads to.

        Args:
            interval: at which the module steps it, where it does.
        """
        rehearsed = []
        of = [id(config.scheduler.optimizer) for config in trainer.lr_scheduler_configs if not config.reduce_on_plateau]
        for config in trainer.lr_scheduler_configs:
            if of.count(id(config.scheduler.optimizer)) > 1:  # alone, a decay would go on from a warm-up's first rate
                self.run.notes.append(f"{type(config.scheduler).__name__} not rehearsed: its optimizer has another one")
                continue
            try:
                known = config if interval is None else replace(config, interval=interval, frequency=1)
                found = rehearsal(known, trainer, self.run.cut)
            except Exception as error:  # of a schedule of the project's own, on a copy
                kind = "" if isinstance(error, CannotJudge) else f"{type(error).__name__}: "
                self.run.notes.append(f"{type(config.scheduler).__name__} not rehearsed: {kind}{error}")
                continue
            if found is not None:
                rehearsed.append((id(config.scheduler.optimizer), *found))
        return rehearsed

    def _stepped_by_hand(self, trainer: Trainer) -> list[Rehearsal]:
        """Return how the schedules will go that the module has stepped once a batch, or once an epoch."""
        batches, found = trainer.num_training_batches, []
        for index, calls in enumerate(self.counter.calls.values()):
            interval = {2: "epoch", 2 * batches: "step"}.get(calls.by_hand) if batches > 1 else None
            rehearsed = self.if_by_hand.get(interval, [])
            if len(rehearsed) == len(self.counter.calls):
                found.append(replace(rehearsed[index][1], stepped_at=calls.place))
        return found

    def _shorten(self, trainer: Trainer, whole: float) -> bool:
        """Let the run have two epochs, by Lightning's own means: both are to end as epochs do.

        Return whether that is more than it has by itself, as where that is one batch.
        """
        # A schedule may end with the run, which another item of this run may have shortened.
        batches = self.batches if whole / 2 >= self.batches else max(1, int(whole / 2))
        trainer.limit_train_batches, trainer.fit_loop.max_epochs = batches, trainer.current_epoch + 2
        trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        trainer.fit_loop._combined_loader = None
        pass_on(trainer.fit_loop.setup_data)
        return 2 * batches > whole

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.at_the_end = True
        self.watching.close()
        if self.epochs is None or self.counter is None:
            return
        self._ask(
            **({"rehearsed": self._stepped_by_hand(trainer)} if self.if_by_hand else {}),
            epochs=self.epochs.listeners,
            calls=[*self.counter.calls.values()],
            monitors=self.monitors,
            named=self.named,
            modes=self.modes,
            least_gains=self.least_gains,
            validated=validated(trainer),
            logged=sorted(trainer.callback_metrics),
            directions=directions(trainer),
        )
        self.seen = "; ".join(self.run.notes)

    def explain(self, error: Exception) -> Finding | None:
        """A schedule that waits for a metric stops the run."""
        said = str(error).partition("ReduceLROnPlateau conditioned on metric ")[2]
        if not said or self.run is None:
            return None
        logged = said.partition("Available metrics are: ")[2].partition("]")[0]
        self.run.monitors, self.run.named = [("ReduceLROnPlateau", said.split(" ")[0])], []
        self.run.validated = []
        self.run.logged = [name.strip("'\" []") for name in logged.split(",") if name.strip("'\" []")]
        return next(iter(probes.load("learning/monitor-not-logged").findings(self.run, {})), None)


def stops_at_a_value_alone(callback: Callback, trainer: Trainer) -> bool:
    """Whether EarlyStopping has more patience than there are epochs, and waits for its `stopping_threshold`."""
    is_given_one = isinstance(callback, EarlyStopping) and callback.stopping_threshold is not None
    return is_given_one and trainer.max_epochs is not None and callback.patience >= trainer.max_epochs > 0


def may_be_logged_later(callback: Callback, pl_module: LightningModule) -> bool:
    """Whether a callback of the project's own, which can do without it, waits for a metric that its code logs."""
    own = is_own_class(type(callback)) and not isinstance(callback, (ModelCheckpoint, EarlyStopping))
    return own and any(logging_lines(type(pl_module), callback.monitor))
