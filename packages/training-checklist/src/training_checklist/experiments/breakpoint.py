"""A debugger's prompt in the first training step."""

import bdb
import os
import sys
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from training_checklist.ending import Refused
from training_checklist.engines.batches import tensors
from training_checklist.engines.uncopied import after_forward
from training_checklist.experiments.experiment import Experiment, stop
from training_checklist.lightning import Callback, EarlyStopping, LightningModule, ProgressBar, Trainer


class Breakpoint(Experiment):
    """Stops with `batch`, `logits`, `loss`, `model` and `trainer` in scope, before backward; `c` goes on, `q` ends."""

    item = "breakpoint"
    no_workers = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, ProgressBar)  # a bar would draw over the prompt

    def __init__(self) -> None:
        super().__init__()
        self.batch: Any = None
        self.logits: Tensor | None = None
        self.hooks: list[RemovableHandle] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if trainer.world_size > 1:
            raise Refused(
                f"+debug=breakpoint with {trainer.world_size} processes: they would fight for one terminal; "
                "add trainer.devices=1 trainer.strategy=auto"
            )

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not has_prompt():
            self.skip("there is no terminal to ask at; start it in one, or under a debugger")
            stop(trainer)
            return
        outermost = (pl_module, *pl_module.children())
        self.hooks = [after_forward(module, self._keep) for module in outermost]

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.batch = batch

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.seen:
            return
        self._remove_hooks()
        self.seen = "stopped in the first training step, and went on"
        try:
            prompt(self.batch, self.logits, loss, pl_module, trainer)
        except bdb.BdbQuit:
            self.seen = "stopped in the first training step, where it was quit"
            stop(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        self._remove_hooks()

    def _keep(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Keep what the outermost modules return last, but for what is one number, as criteria return."""
        self.logits = next((tensor for tensor in tensors(output) if tensor.ndim > 1), self.logits)

    def _remove_hooks(self) -> None:
        for hook in self.hooks:
            hook.remove()


def has_prompt() -> bool:
    """Whether breakpoint() can ask anybody: a terminal, or a hook of an editor or in PYTHONBREAKPOINT."""
    hooked = sys.breakpointhook is not sys.__breakpointhook__ or "PYTHONBREAKPOINT" in os.environ
    return hooked or sys.stdin.isatty()


def prompt(batch: Any, logits: Tensor | None, loss: Tensor, model: LightningModule, trainer: Trainer) -> None:
    """Give whoever debugs the names above."""
    breakpoint()
    return None  # where the prompt stands
