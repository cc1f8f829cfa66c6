"""What the beginnings of later epochs unfreeze, tried on a copy, and whether an optimizer holds it."""

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any
from unittest.mock import patch

from training_checklist.engines.own_code import is_own_class
from training_checklist.engines.places import of_function
from training_checklist.engines.stand_in import stand_in
from training_checklist.evidence.gradients import UnfrozenLater
from training_checklist.finding import Place
from training_checklist.lightning import Callback, LightningModule, Trainer, is_overridden, isolate_rng

EPOCHS = 100  # that are tried: networks are unfrozen early
SECONDS = 2.0
HOOK = "on_train_epoch_start"


class Holder:
    """Stands in for an optimizer that is given further parameters; whatever else is asked of it does nothing."""

    def __init__(self) -> None:
        self.given = False

    def add_param_group(self, group: Any) -> None:
        self.given = True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: self


def unfrozen_later(trainer: Trainer, pl_module: LightningModule) -> UnfrozenLater | None:
    """Call the project's own hooks with a copy, as if each epoch began; None where there are none.

    Raises:
        Exception: of these hooks.
    """
    copy = stand_in(pl_module, trainer)
    hooks: list[tuple[Callable[[], Any], Place]] = []
    if is_overridden(HOOK, pl_module):
        hooks.append((copy.on_train_epoch_start, of_function(type(pl_module).on_train_epoch_start)))
    for callback in trainer.callbacks:
        if is_own_class(type(callback)) and is_overridden(HOOK, callback, Callback):
            twin = deepcopy(callback, {id(trainer): trainer, id(pl_module): copy})
            place = of_function(type(callback).on_train_epoch_start)
            hooks.append((lambda twin=twin: twin.on_train_epoch_start(trainer, copy), place))
    held = {id(p) for optimizer in trainer.optimizers for group in optimizer.param_groups for p in group["params"]}
    frozen = [n for n, p in pl_module.named_parameters() if not p.requires_grad and id(p) not in held]
    if not hooks or not frozen:
        return None
    holder, until = Holder(), time.monotonic() + SECONDS
    copy.optimizers = lambda *_, **__: holder
    progress = trainer.fit_loop.epoch_progress.current
    with isolate_rng(), patch.object(trainer.strategy, "_optimizers", [holder]):
        for epoch in range(EPOCHS):
            if time.monotonic() > until:
                break
            for hook, place in hooks:
                with patch.object(progress, "completed", epoch):
                    hook()
                weights = dict(copy.named_parameters())
                names = [name for name in frozen if name in weights and weights[name].requires_grad]
                if names:
                    return UnfrozenLater([] if holder.given else names, epoch, place)
    return None
