import ast
import gc
import inspect
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, IterableDataset

from training_checklist.instruments import (
    Example,
    LightningModule,
    Schedules,
    Small,
    Trainer,
    loader,
    reached,
    scheduled,
    tree_of,
    turns,
)
from training_checklist.lightning import part
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

BY_HAND = ("training_step", "on_train_batch_end", "on_train_epoch_end")  # where manual optimization steps them
LightningOptimizer = part("core.optimizer").LightningOptimizer
ENDLESS = re.compile(r"\bwhile (?:True|1):|\b(?:cycle|repeat|count)\(")


def detect(schedules: Schedules, limits: Limits) -> Hits:
    trainer, module = schedules.trainer, schedules.trainer.lightning_module
    if not schedules.untold:
        # Every schedule leaves this key in its optimizer; so does a checkpoint.
        made = any("initial_lr" in group for optimizer in trainer.optimizers for group in optimizer.param_groups)
        held = trainer.lr_scheduler_configs or trainer.ckpt_path is not None
        if made and not held and not any(map(is_held, trainer.optimizers)):
            fix = 'return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}'
            yield Hit("a schedule was made for the optimizer, but nobody has it", schedules.place, fix=Fix(fix))
        for each in schedules.rehearsed:
            if each.calls < 1 and each.frequency > 1 and not each.error:
                of = f"{each.batches} batches" if each.interval == "step" else f"{each.epochs:g} epochs"
                what = f"it is never stepped: frequency={each.frequency}, but there are {of} to count"
                yield Hit(what, each.place, fix=Fix("frequency=1 where configure_optimizers returns the schedule"))
        for config in trainer.lr_scheduler_configs if has_no_epochs(trainer) else ():
            if config.interval == "epoch" and not config.reduce_on_plateau:
                yield Hit(
                    f"{type(config.scheduler).__name__} is never stepped: interval=epoch, and the stream that training "
                    f"reads has no end, so that max_steps={trainer.max_steps} ends the run within its first epoch",
                    schedules.place,
                    fix=Fix('{"scheduler": scheduler, "interval": "step"} where configure_optimizers returns it'),
                )
    for calls in schedules.calls:
        if calls.manual and calls.trained and not calls.within + calls.by_hand and not steps_seldom(module):
            what = f"nobody has stepped {calls.schedule} in two epochs: with manual optimization Lightning does not"
            yield Hit(what, Place(note=f"lr_scheduler {calls.schedule}"))


def is_held(optimizer: Optimizer) -> bool:
    """Whether anything is left that steps and has this optimizer: in a list, a callback, or of a class of its own."""
    holders = gc.get_referrers(optimizer)
    holders += [each for space in holders if isinstance(space, dict) for each in gc.get_referrers(space)]
    kinds = {type(each) for each in holders if not isinstance(each, (Optimizer, LightningOptimizer))}
    return any(name.startswith("step") for kind in kinds for name in dir(kind))


def steps_seldom(module: LightningModule) -> bool:
    """Whether the code steps a schedule under a condition on the epoch or the step, as in every fifth epoch."""
    functions = {function for name in BY_HAND for function in reached(module, name)}
    under = [each for function in functions for node in turns(function) for each in ast.walk(node)]
    called = [each for each in under if isinstance(each, ast.Call)]
    return any(isinstance(each.func, ast.Attribute) and each.func.attr == "step" for each in called) and any(
        "lr_schedulers" in ast.unparse(tree_of(function)) for function in functions
    )


def has_no_epochs(trainer: Trainer) -> bool:
    """Whether nothing but max_steps ends training: a stream goes on for ever, as the file of its class says."""
    if trainer.max_steps <= 0 or trainer.max_epochs != -1 or math.isfinite(trainer.num_training_batches):
        return False
    datasets = [each.dataset for each in trainer.fit_loop._combined_loader.flattened if isinstance(each, DataLoader)]
    return any(isinstance(each, IterableDataset) and ENDLESS.search(file_of(each)) for each in datasets)


def file_of(dataset: Dataset) -> str:
    try:
        return inspect.getsource(inspect.getmodule(type(dataset)) or type(dataset))
    except (OSError, TypeError):  # made at a prompt
        return ""


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        samples = [*loader(4).dataset]
        while True:
            yield from samples


class Rate:
    """A schedule of another class than torch's, as timm's."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group["initial_lr"] = group["lr"]

    def step_update(self, step: int) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] / (1 + step)


class Stepping(Small):
    """Keeps its schedule, or not, and steps it by hand."""

    keeps = True

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        schedule = Rate(optimizer)
        self.schedules = [schedule] * self.keeps
        return optimizer

    def on_train_batch_end(self, *_: Any) -> None:
        for each in self.schedules:
            each.step_update(self.global_step)


def of_a_stream(interval: str) -> Example:
    example = scheduled(partial(StepLR, step_size=1), interval, epochs=-1, trainer={"max_steps": 20})
    return replace(example, loader=lambda: DataLoader(Stream(), 4))


PROBE = Probe(
    question="Is every lr_scheduler that configure_optimizers makes stepped at least once?",
    why="the learning rate stays what it is at first, such as that of the first step of a warm-up",
    fix=Fix("self.lr_schedulers().step() in training_step, or in on_train_epoch_end, as its length is counted"),
    detect=detect,
    aliases=("schedule/not-returned", "schedule/nobody-steps-it"),
    faulty=scheduled(partial(StepLR, step_size=1), frequency=9),
    also_faulty=(of_a_stream("epoch"), type("Losing", (Stepping,), {"keeps": False})),
    healthy=scheduled(partial(StepLR, step_size=1), frequency=8),
    also_healthy=(of_a_stream("step"), Stepping),
)
