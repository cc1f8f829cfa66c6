"""Lightning callbacks that the commands of this benchmark add to the project's own."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer

WARM = 5  # steps before anything is counted: kernels are chosen and memory is taken in the first ones


class StopAt(Callback):
    """Asks the process to stop, as a scheduler does, after so many steps."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


class PeakMemory(Callback):
    """Writes the largest number of bytes that tensors took on the GPU during whole steps; 0 on a CPU."""

    def __init__(self, path: str) -> None:
        self.path, self.peak = Path(path), 0

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if pl_module.device.type == "cuda" and trainer.global_step == WARM:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        peak = torch.cuda.max_memory_allocated() if pl_module.device.type == "cuda" else 0
        self.path.write_text(json.dumps({"peak": peak}), encoding="utf-8")


class Idle(Callback):
    """Writes which share (0..1) of the time of `steps` steps no kernel ran on the GPU; null on a CPU."""

    def __init__(self, path: str, steps: int) -> None:
        self.path, self.steps = Path(path), steps

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == WARM:
            self.on_gpu = pl_module.device.type == "cuda"
            activities = [torch.profiler.ProfilerActivity.CUDA if self.on_gpu else torch.profiler.ProfilerActivity.CPU]
            self.profiler = torch.profiler.profile(activities=activities)
            self.profiler.start()
            self.started = time.perf_counter()
        elif trainer.global_step == WARM + self.steps:
            if self.on_gpu:
                torch.cuda.synchronize()
            seconds = time.perf_counter() - self.started
            self.profiler.stop()
            spans = [
                (event.time_range.start, event.time_range.end)
                for event in self.profiler.events()
                if event.device_type == torch.autograd.DeviceType.CUDA
            ]
            idle = 1 - covered(spans) / 1e6 / seconds if self.on_gpu else None
            self.path.write_text(json.dumps({"idle": idle, "seconds": seconds}), encoding="utf-8")
            trainer.should_stop = True


def covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of intervals; kernels on several streams overlap."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
