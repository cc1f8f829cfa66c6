"""A debugger's prompt in the first training step."""

import bdb
import os
import sys
from typing import Any

from torch import Tensor

from training_checklist.ending import Refused
from training_checklist.engines.observe import Logits
from training_checklist.experiments.experiment import Experiment, stop
from training_checklist.lightning import Callback, EarlyStopping, LightningModule, ProgressBar, Trainer


class Breakpoint(Experiment):
    """Stops with `batch`, `logits`, `loss`, `model` and `trainer` in scope, before backward; `c` goes on, `q` ends."""

    item = "breakpoint"
    no_workers = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, ProgressBar)  # a bar would draw over the prompt

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if trainer.world_size > 1:
            raise Refused(
                f"+debug=breakpoint with {trainer.world_size} processes: they would fight for one terminal; "
                "use python train.py +debug=breakpoint trainer=cpu"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not has_prompt():
            self.skip("there is no terminal to ask at; start it in one, or under a debugger")
            stop(trainer)
            return
        self.logits = Logits(pl_module)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch = batch

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.seen:
            return
        self.logits.remove()
        self.seen = "stopped in the first training step, and went on"
        try:
            prompt(self.batch, self.logits.value, loss, pl_module, trainer)
        except bdb.BdbQuit:
            self.seen = "stopped in the first training step, where it was quit"
            stop(trainer)


def has_prompt() -> bool:
    """Whether breakpoint() can ask anybody: a terminal, or a hook of an editor or in PYTHONBREAKPOINT."""
    hooked = sys.breakpointhook is not sys.__breakpointhook__ or "PYTHONBREAKPOINT" in os.environ
    return hooked or sys.stdin.isatty()


def prompt(batch: Any, logits: Tensor | None, loss: Tensor, model: LightningModule, trainer: Trainer) -> None:
    """Give whoever debugs the names above."""
    breakpoint()
    return None  # where the prompt stands
