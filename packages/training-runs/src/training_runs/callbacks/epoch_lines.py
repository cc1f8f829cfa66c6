"""One line for every epoch, in the run's log and, where no bar is drawn, in the terminal."""

import math
import time
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import LearningRateMonitor

from training_runs.callbacks.progress_bar import ProgressBar, epoch_of
from training_runs.start import console


class EpochLines(Callback):
    """Says after every epoch what it came to: `epoch 3/10  train/loss 0.163  val/loss 0.098  112 batches/s  4.1 s ...`.

    The rate is that of training alone, the time that of the whole epoch with its validation. It is said when the next
    epoch begins or training ends: what a LightningModule logs in `on_train_epoch_end` is not there before.

    Args:
        monitor: the metric whose best value so far ends the line; nothing does where nobody logs it.
        mode: whether more of it is better, "max", or less, "min".
    """

    def __init__(self, monitor: str, mode: str) -> None:
        self.monitor, self.mode = monitor, mode
        self.best: float | None = None
        self.best_epoch = 0  # counted from 1
        self.unsaid: str | None = None  # the epoch that has ended, with its number

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.best_epoch = state_dict["best"], state_dict["best_epoch"]

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart()  # an epoch that goes on after a resume has no start

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer)
        self._restart()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.batches += 1

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.validation_started = time.perf_counter()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.sanity_checking:
            self.validated = True
            self.aside += time.perf_counter() - self.validation_started
            self._compare(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        seconds = time.perf_counter() - self.started
        rate = self.batches / (seconds - self.aside)
        self.unsaid, self.cost = epoch_of(trainer), f"{rate:.3g} batches/s  {seconds:.1f} s"
        self.epoch = trainer.current_epoch + 1

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._say(trainer)

    def _restart(self) -> None:
        self.started, self.batches = time.perf_counter(), 0
        self.aside, self.validated = 0.0, False  # seconds of validation; whether there was one

    def _compare(self, trainer: Trainer, epoch: int | None = None) -> None:
        value = float(trainer.callback_metrics.get(self.monitor, math.nan))
        better = self.best is None or (value > self.best if self.mode == "max" else value < self.best)
        if math.isfinite(value) and better:
            self.best, self.best_epoch = value, trainer.current_epoch + 1 if epoch is None else epoch

    def _say(self, trainer: Trainer) -> None:
        if self.unsaid is None:
            return
        self._compare(trainer, self.epoch)  # a metric of training is known only now
        values = [f"{name} {float(value):.4g}" for name, value in epoch_metrics(trainer, self.validated)]
        best = [] if self.best is None else [f"best {self.monitor} {self.best:.4g} in epoch {self.best_epoch}"]
        bar = trainer.progress_bar_callback
        drawn = isinstance(bar, ProgressBar) and bar.is_enabled
        console.record("  ".join([self.unsaid, *values, self.cost, *best]), shown=not drawn)
        self.unsaid = None


def epoch_metrics(trainer: Trainer, validated: bool) -> list[tuple[str, Any]]:
    """Return what the epoch has logged, training first; without validation's where that is of an epoch before.

    Lightning gives what is logged of steps and of epochs under three names, of which one is enough.
    """
    metrics = trainer.callback_metrics
    rates = {name for each in trainer.callbacks if isinstance(each, LearningRateMonitor) for name in each.lrs}
    names = [
        name
        for name in metrics
        if name not in rates
        and not name.endswith("_step")
        and not (name.endswith("_epoch") and name.removesuffix("_epoch") in metrics)
        and (validated or not name.startswith("val"))
        and not name.startswith("test")
    ]
    names.sort(key=lambda name: (not name.startswith("train"), "loss" not in name, name))
    return [(name, metrics[name]) for name in names]
