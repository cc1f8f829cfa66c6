"""The line that overwrites a tensor which backward still needs: a training step is taken once more, under watch."""

import time
from contextlib import suppress

import torch
from torch import Tensor

from training_checklist.engines.replay import call_step
from training_checklist.engines.splits import splits
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.finding import NOWHERE, Place
from training_checklist.lightning import LightningModule, isolate_rng

ASSIGNS = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"}
SAMPLES = 8
SECONDS = 5.0


class Overwritten(Listener):
    """Keeps the last line that changes a tensor of the network's in place, of so many dimensions."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions, self.place = dimensions, NOWHERE

    def before(self, call: Call) -> None:
        changes = call.name in ASSIGNS or (call.name.endswith("_") and not call.name.endswith("__"))
        changed = call.args[0] if changes and call.args else None
        if isinstance(changed, Tensor) and changed.grad_fn is not None and changed.ndim == self.dimensions:
            self.place = call.place if call.place.line else self.place


def overwriting_line(pl_module: LightningModule, shape: str) -> Place:
    """Return the line that changes a tensor in place which is as large as `shape`, "32, 6, 576", says."""
    seen = Overwritten(shape.count(",") + 1)
    with suppress(Exception):  # what a step of its own raises is known already
        split = splits("train", pl_module.trainer.train_dataloader)[0]
        [(_, batch)] = split.fetch(split.chosen(SAMPLES), pl_module.trainer, time.monotonic() + SECONDS, SAMPLES)
        copy = stand_in(pl_module, pl_module.trainer)
        with isolate_rng(), torch.enable_grad(), Tracer(copy, seen):
            call_step(copy, "training_step", batch)
    return seen.place
