"""Learning rate schedules: rehearsed on copies, and their real calls counted."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from unittest.mock import patch

from omegaconf import OmegaConf
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from training_checklist.direction import better
from training_checklist.engines.hooks import restore
from training_checklist.engines.instead import put
from training_checklist.engines.own_code import is_own, pass_on
from training_checklist.engines.own_config import own_config
from training_checklist.engines.places import of_frame, of_function
from training_checklist.engines.rehearsal import rehearse
from training_checklist.evidence.schedules import Calls, GroupRates, Plateau, PlateauTurns, Rehearsal, Unheld
from training_checklist.lightning import LightningModule, Trainer

MOST = 20_000  # calls that are rehearsed
SHOWN = ("step_size", "gamma", "milestones", "T_max", "total_steps", "total_iters")


def rehearsal(config: Any, trainer: Trainer) -> tuple[Rehearsal, list[float]] | None:
    """Return how a schedule will go, and the peak rate of each of the optimizer's groups; None without a known end.

    Args:
        config: Lightning's `LRSchedulerConfig`.
    """
    batches, accumulated = trainer.num_training_batches, trainer.accumulate_grad_batches
    steps = trainer.estimated_stepping_batches
    if not (math.isfinite(batches) and math.isfinite(steps)) or config.reduce_on_plateau:
        return None
    # Lightning counts batches, anew in each epoch, and steps a schedule at steps of the optimizer.
    stepping = [number for number in range(1, batches + 1) if number % accumulated == 0 or number == batches]
    by_step = sum(number % config.frequency == 0 for number in stepping)
    per_epoch = by_step if config.interval == "step" else 1 / config.frequency
    epochs = steps / len(stepping)
    calls = int(min(per_epoch * epochs, MOST))
    groups, error = rehearse(config.scheduler, trainer.lightning_module, calls)
    further = groups if error else rehearse(config.scheduler, trainer.lightning_module, int(min(steps, MOST)))[0]
    made_for = getattr(config.scheduler, "total_steps", None) or getattr(config.scheduler, "T_max", None) or math.nan
    found = Rehearsal(
        shown(config.scheduler),
        config.interval,
        config.frequency,
        batches,
        steps,
        epochs,
        per_epoch,
        [max(rates) for rates in max(groups, further, key=len)],
        made_for,
        hasattr(config.scheduler, "total_steps"),
        error,
        max(getattr(config.scheduler, "base_lrs", None) or [math.nan]),
        accumulated,
        first_change(config.scheduler, trainer, per_epoch / len(stepping), len(stepping)),
        of_function(type(trainer.lightning_module).configure_optimizers),
    )
    return found, [max(rates) for rates in zip(*groups, strict=True)]


def first_change(scheduler: Any, trainer: Trainer, calls_per_step: float, steps: int) -> float:
    """Return the call that first changes a rate, were the run as long as the longer of its two limits.

    Args:
        steps: of the optimizer in an epoch.
    """
    if trainer.max_steps <= 0 or trainer.max_epochs is None or trainer.max_epochs <= 0:
        return math.nan
    longest = max(trainer.max_steps, trainer.max_epochs * steps)
    course, _ = rehearse(scheduler, trainer.lightning_module, int(min(calls_per_step * longest, MOST)))
    return next((call for call, rates in enumerate(course) if rates != course[0]), math.nan)


def shown(scheduler: Any) -> str:
    options = ", ".join(f"{key}={getattr(scheduler, key)}" for key in SHOWN if hasattr(scheduler, key))
    return f"{type(scheduler).__name__}({options})"


def unheld(trainer: Trainer) -> Unheld:
    # Every schedule leaves this key in its optimizer; so does a checkpoint.
    scheduled = any("initial_lr" in group for optimizer in trainer.optimizers for group in optimizer.param_groups)
    held = any(isinstance(value, LRScheduler) for value in vars(trainer.lightning_module).values())
    lost = scheduled and not held and not trainer.lr_scheduler_configs and trainer.ckpt_path is None
    return Unheld(lost, of_function(type(trainer.lightning_module).configure_optimizers))


def plateaus(trainer: Trainer) -> Iterator[Plateau]:
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau and hasattr(config.scheduler, "mode"):
            yield Plateau(str(config.monitor), config.scheduler.mode, better(config.monitor or ""))


def plateau_turns(trainer: Trainer) -> Iterator[PlateauTurns]:
    """Yield the turns that schedules will have in the project's own training, of which this run is a part."""
    config = own_config()
    every = OmegaConf.select(config, "trainer.check_val_every_n_epoch") if config is not None else None
    logged = validated(trainer)
    for each in trainer.lr_scheduler_configs if isinstance(every, int) else ():
        if each.reduce_on_plateau and each.interval == "epoch" and each.strict:
            yield PlateauTurns(str(each.monitor), each.frequency, every, each.monitor in logged)


def validated(trainer: Trainer) -> list[str]:
    """Return the names of what the last validation has logged."""
    return sorted({result.meta.name for result in trainer.fit_loop.epoch_loop.val_loop._results.values()})


class RatesOfGroups:
    """While it is entered, keeps the rates that optimizers are made with, group by group."""

    def __init__(self) -> None:
        self.made: dict[int, list[float]] = {}
        self.given: dict[int, list[float]] = {}  # by schedules, at their highest

    def __enter__(self) -> "RatesOfGroups":
        inner = Optimizer.add_param_group

        def add_param_group(optimizer: Optimizer, group: dict[str, Any]) -> None:
            pass_on(inner, optimizer, group)
            self.made.setdefault(id(optimizer), []).append(float(optimizer.param_groups[-1].get("lr") or 0))

        self.watching = patch.object(Optimizer, "add_param_group", add_param_group)
        self.watching.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.watching.stop()

    def evidence(self, trainer: Trainer) -> Iterator[GroupRates]:
        """Yield what became of them, when some steps were taken."""
        for optimizer in trainer.optimizers:
            made, now = self.made.get(id(optimizer), []), [float(group["lr"]) for group in optimizer.param_groups]
            if len(made) == len(now) > 1:
                schedules = [c.scheduler for c in trainer.lr_scheduler_configs if c.scheduler.optimizer is optimizer]
                place = of_function(type(trainer.lightning_module).configure_optimizers)
                given = self.given.get(id(optimizer), now)
                yield GroupRates(made, given, now, " and ".join(map(shown, schedules)), place)


class CallCounter:
    """Counts the calls of each schedule's step(), in the turns that Lightning gives it and beside them."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer, self.turn = trainer, False
        self.stepping: list[Any] = []
        self.calls = {
            id(each.scheduler): Calls(
                shown(each.scheduler), 0, 0, 0, not trainer.lightning_module.automatic_optimization
            )
            for each in trainer.lr_scheduler_configs
        }
        self.schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]

    @contextmanager
    def counting(self, pl_module: LightningModule) -> Iterator[None]:
        hook = pl_module.lr_scheduler_step
        own = vars(pl_module).get("lr_scheduler_step")

        def in_turn(scheduler: Any, *arguments: Any, **options: Any) -> Any:
            if id(scheduler) in self.calls:
                self.calls[id(scheduler)].turns += 1
            self.turn = True
            try:
                return pass_on(hook, scheduler, *arguments, **options)
            finally:
                self.turn = False

        # On their classes: a scheduler's own attributes are part of its state, and of checkpoints.
        kinds = list(dict.fromkeys(type(scheduler) for scheduler in self.schedulers))
        steps = [(kind, vars(kind).get("step"), kind.step) for kind in kinds]
        put(pl_module, "lr_scheduler_step", in_turn)
        for kind, _, step in steps:
            kind.step = self._counted(step)
        try:
            yield
        finally:
            restore(vars(pl_module), "lr_scheduler_step", own)
            for kind, earlier, _ in steps:
                if earlier is None:
                    del kind.step
                else:
                    kind.step = earlier

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(scheduler: Any, *arguments: Any, **options: Any) -> Any:
            calls = self.calls.get(id(scheduler))
            if calls is None or scheduler in self.stepping:  # another's, or one that calls its parent class's
                return pass_on(step, scheduler, *arguments, **options)
            calls.early |= calls.within + calls.by_hand == 0 and self.trainer.global_step == 0
            calls.within += self.turn
            calls.by_hand += not self.turn
            frame: FrameType = sys._getframe(1)
            if is_own(frame.f_code.co_filename):
                place = of_frame(frame)
                calls.places += [place] if place not in calls.places else []
            self.stepping.append(scheduler)
            try:
                return pass_on(step, scheduler, *arguments, **options)
            finally:
                self.stepping.pop()

        return counted
