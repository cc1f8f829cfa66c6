import inspect
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch.optim import SGD

from training_checklist.instruments import (
    MANY,
    SMOOTH,
    Example,
    Schedules,
    Small,
    call_step,
    initialized,
    is_own_class,
    isolate_rng,
    loader,
    of_function,
    of_the_project,
    share_of_way,
    stand_in,
)
from training_checklist.lightning import Callback, Checkpoint, LightningModule, Trainer
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

# In the order in which Lightning calls them.
HOOKS = ("on_train_epoch_start", "on_train_batch_start", "training_step", "on_before_optimizer_step")
HOOKS += ("on_train_batch_end",)
# Of a class: what counts a run's steps, what sets by them, and what others would see, which a rehearsal leaves alone.
COUNTS = re.compile(r"global_step|current_epoch")
SETS = re.compile(r"param_groups|\b(?:lerp|mul|add|sub|copy)_\(|\.data\b")
SEEN = re.compile(r"\b(?:save\w*|open|write\w*|log\w*|print|experiment|mkdir|unlink|remove)\(|should_stop")
AVERAGE = "the share of the new weights in an average"
PARTS = 20  # of a fall that are looked at
ROUNDING = 1e-3  # of an average's step: what may lead elsewhere than to the weights

STEPS = 40  # of the examples: 5 epochs of 8 batches

Settings = dict[str, float]


def detect(schedules: Schedules, limits: Limits) -> Hits:
    schedules.ask_for_length()
    steps = schedules.trainer.estimated_stepping_batches
    if not math.isfinite(steps):
        raise CannotJudge("the run has no known length")
    for hook in rehearsals(schedules):
        for what, at, values in hook.falls(int(steps)):
            falls = all(later < earlier for earlier, later in pairwise(values))
            is_over = values[-1] <= limits.max_floor * values[0] and steps >= limits.many * at[-1]
            is_at_work = what == AVERAGE and values[-1] > 0  # with a warm-up: its decay has come to the usual constant
            if falls and is_over and len(at) > limits.min_smooth and not is_at_work:
                yield Hit(
                    f"{what} falls from {values[0]:.3g} to {values[-1]:.3g} in {at[-1]} of {steps} steps, and stays "
                    f"there: an epoch has {hook.per_epoch}",
                    of_function(getattr(type(hook.owner), hook.hook)),
                )


def rehearsals(schedules: Schedules) -> list["HookRehearsal"]:
    """Return the hooks of the project that set something along the run."""
    trainer = schedules.trainer
    callbacks = [each for each in trainer.callbacks if not isinstance(each, Checkpoint)]
    return [
        HookRehearsal(trainer, schedules.batch, owner, hook)
        for owner, base in ((trainer.lightning_module, LightningModule), *((each, Callback) for each in callbacks))
        if is_own_class(type(owner)) and may_be_rehearsed(owner)
        for hook in HOOKS
        if getattr(type(owner), hook, None) is not getattr(base, hook, None)
    ]


def may_be_rehearsed(owner: Any) -> bool:
    """Whether hooks set something along the run; a callback's not where others would see what they do."""
    try:
        source = inspect.getsource(type(owner))
    except (OSError, TypeError):
        return False
    is_alone = isinstance(owner, LightningModule) or SEEN.search(source) is None
    return is_alone and COUNTS.search(source) is not None and SETS.search(source) is not None


def first_step(holds: Callable[[int], bool], steps: int) -> int:
    """Return the first step from which on something holds, as it does at the last."""
    low, high = 0, steps - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


class HookRehearsal:
    """One hook of the module or of a callback, called at any step of the run."""

    def __init__(self, trainer: Trainer, batch: Any, owner: Any, hook: str) -> None:
        self.trainer, self.batch, self.owner, self.hook = trainer, batch, owner, hook
        per_epoch = trainer.num_training_batches / trainer.accumulate_grad_batches  # infinite of a stream
        self.per_epoch = math.ceil(min(per_epoch, trainer.estimated_stepping_batches))
        self.known: dict[int, Settings] = {}

    def falls(self, steps: int) -> Iterator[tuple[str, list[int], list[float]]]:
        """Yield what is less at the end than at the start: its name, some steps, and its value at each.

        The last is the step from which on it stays as it is at the end.
        """
        first, last = self.at(0), self.at(steps - 1)
        for name in [name for name, value in last.items() if name in first and first[name] > value]:
            end = first_step(lambda step, name=name: self.at(step).get(name) == last[name], steps)
            at = sorted({round(end * part / PARTS) for part in range(PARTS + 1)})
            yield name, at, [self.at(step).get(name, math.nan) for step in at]

    def at(self, step: int) -> Settings:
        """Return the settings of the optimizers' groups, and which share of the way an average goes."""
        if step not in self.known:
            groups = [group for optimizer in self.trainer.optimizers for group in optimizer.param_groups]
            kept = [{key: value for key, value in group.items() if key != "params"} for group in groups]
            with isolate_rng(), moved_to(self.trainer, step, self.per_epoch):
                try:
                    with of_the_project(f"{self.hook}, called on a copy,"):
                        average = self._call()
                    self.known[step] = average | settings(groups)
                finally:
                    for group, values in zip(groups, kept, strict=True):
                        group.update(values)
        return self.known[step]

    def _call(self) -> Settings:
        copies: dict[int, Any] = {}
        module = stand_in(self.trainer.lightning_module, self.trainer, copies)
        owner = module
        if isinstance(self.owner, Callback):
            owner = copy(self.owner)
            vars(owner).update(deepcopy(vars(self.owner), copies))
        trained = [weight for weight in initialized(module.parameters()) if weight.requires_grad and weight.ndim > 1]
        others = [tensor for tensor in (*module.parameters(), *module.buffers()) if not tensor.requires_grad]
        with torch.no_grad():
            for weight in trained:  # so that an average has a way to go
                weight.add_(torch.randn_like(weight))
            before = [tensor.clone() for tensor in others]
            if self.hook == "training_step":
                call_step(module, self.hook, self.batch)
            else:
                base = LightningModule if owner is module else Callback
                given = {"trainer": self.trainer, "pl_module": module, "outputs": {"loss": torch.zeros(())}}
                given |= {"batch": self.batch, "batch_idx": 0, "optimizer": self.trainer.optimizers[0]}
                taken = [name for name in inspect.signature(getattr(base, self.hook)).parameters if name != "self"]
                getattr(owner, self.hook)(*(given[name] for name in taken))
            for earlier, now in zip(before, others, strict=True):
                for weight in trained if now.ndim > 1 else ():
                    if weight.shape == now.shape:
                        share, off = share_of_way(earlier, now, weight)
                        if off <= ROUNDING * float((now - earlier).double().norm()):
                            # Sums of float32 differ from step to step.
                            return {AVERAGE: round(share, 6)}
        return {}


def settings(groups: list[dict[str, Any]]) -> Settings:
    return {
        f"{key} of group {number}" if len(groups) > 1 else key: float(value)
        for number, group in enumerate(groups)
        for key, value in group.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and key != "initial_lr"
    }


@contextmanager
def moved_to(trainer: Trainer, step: int, per_epoch: int) -> Iterator[None]:
    """Let the Trainer be at another step of the optimizer inside."""
    loop, epoch = trainer.fit_loop.epoch_loop, trainer.fit_loop.epoch_progress.current
    progress = loop.automatic_optimization.optim_progress.optimizer.step.total
    batches = loop.batch_progress.total
    kept = progress.completed, epoch.processed, batches.ready
    batch = step * trainer.accumulate_grad_batches + 1
    progress.completed, epoch.processed, batches.ready = step, step // per_epoch, batch
    try:
        yield
    finally:
        progress.completed, epoch.processed, batches.ready = kept


def over_after(steps: int, floor: float = 0.0) -> Example:
    class Decaying(Small):
        def on_before_optimizer_step(self, optimizer: Any) -> None:
            for group in optimizer.param_groups:
                share = min(self.trainer.global_step / steps, 1)
                group["weight_decay"] = 0.1 * (1 - (1 - floor) * share)

        def configure_optimizers(self) -> SGD:
            return SGD(self.parameters(), 0.01, weight_decay=0.1)

    brief = {"samples": 4, "steps": 1, "max_steps": 1, "seconds": 0}
    return Example(Decaying, lambda: loader(4), trainer={"max_epochs": STEPS // 8}, item=brief)


PROBE = Probe(
    question="Does a value that a hook lowers step by step (a weight decay, the rate of an average) reach its lowest "
    "only near the end of the run?",
    why="the rest of the run goes on with the lowest value: a weight decay does next to nothing, an average stands "
    "still; the schedule's length is that of an epoch, or another one that is not the run's",
    severity=WARNING,
    fix=Fix("make its length trainer.estimated_stepping_batches (where it counts global_step) or trainer.max_epochs"),
    detect=detect,
    thresholds={
        "many": replace(MANY, faulty=over_after(10), healthy=over_after(16)),
        "min_smooth": replace(SMOOTH, faulty=over_after(8), healthy=over_after(4)),
        "max_floor": Threshold(
            0.1,
            "of its first value: what is left of a setting at a milestone, by default; more of it is still at work",
            factor=2.0,
            faulty=over_after(10, 0.08),
            healthy=over_after(10, 0.15),
        ),
    },
    faulty=over_after(10),
    healthy=over_after(STEPS),
)
