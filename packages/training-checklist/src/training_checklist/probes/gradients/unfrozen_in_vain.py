import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from unittest.mock import patch

import torch
from torch.optim import Optimizer

from training_checklist.instruments import (
    Callback,
    FirstSteps,
    Small,
    counted,
    is_overridden,
    is_own_class,
    isolate_rng,
    of_function,
    of_the_project,
    several_steps,
    shown,
    stand_in,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe

EPOCHS = 100  # that are tried: networks are unfrozen early
SECONDS = 2.0
HOOK = "on_train_epoch_start"


class Holder:
    """Stands in for an optimizer that is given further parameters; whatever else is asked of it does nothing."""

    given = False

    def add_param_group(self, group: Any) -> None:
        self.given = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: self


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    trainer, pl_module = steps.trainer, steps.pl_module
    with of_the_project(f"{HOOK}, called as in later epochs,"):
        copy = stand_in(pl_module, trainer)
        hooks: list[tuple[Callable[[], Any], Place]] = []
        if is_overridden(HOOK, pl_module):
            hooks.append((copy.on_train_epoch_start, of_function(type(pl_module).on_train_epoch_start)))
        for callback in trainer.callbacks:
            if is_own_class(type(callback)) and is_overridden(HOOK, callback, Callback):
                twin = deepcopy(callback, {id(trainer): trainer, id(pl_module): copy})
                place = of_function(type(callback).on_train_epoch_start)
                hooks.append((lambda twin=twin: twin.on_train_epoch_start(trainer, copy), place))
        held = set().union(*steps.holdings.held)
        frozen = [n for n, p in pl_module.named_parameters() if not p.requires_grad and id(p) not in held]
        if not hooks or not frozen:
            return
        holder, until = Holder(), time.monotonic() + SECONDS
        copy.optimizers = lambda *_, **__: holder
        progress = trainer.fit_loop.epoch_progress.current
        strategy, known = trainer.strategy, [holder]
        anew = patch.object(strategy, "setup_optimizers", lambda *_: holder.add_param_group({}))
        with isolate_rng(), patch.object(strategy, "_optimizers", known), anew:
            for epoch in range(EPOCHS):
                for hook, place in hooks:
                    with patch.object(progress, "completed", epoch):
                        hook()
                    weights = dict(copy.named_parameters())
                    names = [name for name in frozen if name in weights and weights[name].requires_grad]
                    if names and not holder.given and strategy._optimizers is known:
                        yield Hit(
                            f"{counted(names)} are unfrozen when epoch {epoch} begins, and no optimizer holds them",
                            place.beside(parameter=shown(names)),
                        )
                    if names or time.monotonic() > until:
                        return


class Anew(Small):
    """Has an optimizer made anew when its first layer is unfrozen."""

    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)

    def on_train_epoch_start(self) -> None:
        if self.current_epoch == 2:
            self.first.requires_grad_(True)
            self.trainer.strategy.setup_optimizers(self.trainer)

    def configure_optimizers(self) -> Optimizer:
        return torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=0.01)


class Unfreezing(Small):
    all_held = False

    def on_train_epoch_start(self) -> None:
        if self.current_epoch == 2:
            self.first.requires_grad_(True)

    def configure_optimizers(self) -> Optimizer:
        self.first.requires_grad_(False)
        return torch.optim.SGD([p for p in self.parameters() if self.all_held or p.requires_grad], lr=0.01)


PROBE = Probe(
    question="Is every parameter that is unfrozen during training held by an optimizer?",
    why="configure_optimizers ran while they were frozen, and left them out: they get gradients and never change",
    fix=Fix(
        "give the optimizer all parameters from the beginning: it passes over those without a gradient; or call "
        "optimizer.add_param_group when they are unfrozen"
    ),
    detect=detect,
    faulty=several_steps(Unfreezing),
    healthy=several_steps(type("AllHeld", (Unfreezing,), {"all_held": True})),
    also_healthy=(several_steps(Anew),),
)
