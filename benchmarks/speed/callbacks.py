"""Lightning callbacks that the benchmark adds to the project's own: `+callbacks.turns._target_=callbacks.TakeTurns`."""

import json
import os
import time
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


class SwitchWatch(Callback):
    """Takes the callback of `+debug=watch` away and puts it back, by turns of `stretch` batches: A B B A.

    In one process, so that nothing else differs: where a network's weights lie in memory makes more of a difference
    between two processes than what is to be measured. Writes seconds of CPU time with and without to `path`.
    """

    def __init__(self, stretch: int, path: str) -> None:
        self.stretch, self.path = stretch, Path(path)
        self.seconds: dict[bool, list[float]] = {True: [], False: []}
        self.watch: Callback | None = None
        self.began: float | None = None
        self.turn = 0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if batch_idx % self.stretch:
            return
        self._end()
        if self.watch is None:
            self.watch = next(each for each in trainer.callbacks if type(each).__name__ == "Watch")
        watched = self.turn % 4 in (0, 3)
        self.turn += 1
        others = [each for each in trainer.callbacks if each is not self.watch]
        if watched:
            self.watch.timeline.interrupt()
        trainer.callbacks = [self.watch, *others] if watched else others
        self.began, self.watched = time.process_time(), watched

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.began = None  # the last turn of an epoch may be short, and validation follows

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.path.write_text(json.dumps([self.seconds[True], self.seconds[False]]), encoding="utf-8")
        if self.watch not in trainer.callbacks:
            trainer.callbacks = [self.watch, *trainer.callbacks]

    def _end(self) -> None:
        if self.began is not None and self.turn > 4:  # the first ones are where everything is new
            self.seconds[self.watched].append(time.process_time() - self.began)


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
