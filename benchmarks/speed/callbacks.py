"""Lightning callbacks that the benchmark adds to the project's own: `+callbacks.turns._target_=callbacks.TakeTurns`."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from turns import Turns

# What makes the host wait for a GPU. Not cudaDeviceSynchronize: the profiler itself ends with one.
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")


class TakeTurns(Callback):
    """Trains `stretch` batches a turn. An epoch's last turn has its validation, checkpoint and logging too."""

    def __init__(self, stretch: int) -> None:
        self.stretch = stretch
        self.turns: Turns | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:  # the other ranks wait in the next reduction
            self.turns = Turns()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if batch_idx % self.stretch == 0 and self.turns is not None:
            synchronize(pl_module)
            self.turns.next(epoch=trainer.current_epoch - (batch_idx == 0))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.turns is not None:
            synchronize(pl_module)
            self.turns.next(epoch=trainer.current_epoch - 1)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.turns is not None:
            self.turns.finish(accuracy=float(trainer.callback_metrics["test/accuracy"]))


def synchronize(pl_module: LightningModule) -> None:
    if pl_module.device.type == "cuda":
        torch.cuda.synchronize()


class EndAtFirstStep(Callback):
    """Ends the process at once after the first optimizer step: what comes later is not start-up."""

    def on_train_batch_end(self, *args: Any) -> None:
        os._exit(0)


class CountWaits(Callback):
    """Writes to `path` how often the host waited for the device in `steps` whole steps between two that log."""

    def __init__(self, path: str, steps: int) -> None:
        self.path = Path(path)
        self.steps = steps

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if batch_idx == 2 * trainer.log_every_n_steps:
            activities = [torch.profiler.ProfilerActivity.CPU]
            if pl_module.device.type == "cuda":
                activities.append(torch.profiler.ProfilerActivity.CUDA)
            self.profiler = torch.profiler.profile(activities=activities)
            self.profiler.start()
        elif batch_idx == 2 * trainer.log_every_n_steps + self.steps:
            self.profiler.stop()
            names = Counter(event.name for event in self.profiler.events())
            self.path.write_text("".join(f"{name} {names[name]}\n" for name in WAITS), encoding="utf-8")
            trainer.should_stop = True
