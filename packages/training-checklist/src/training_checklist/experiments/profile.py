"""Where the time of a step goes: waiting for data, or computing, and in which operations."""

import cProfile
import math
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from training_checklist.ending import FitEnded
from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on, shorten
from training_checklist.experiments.experiment import Experiment
from training_checklist.lab.step_times import StepTimes
from training_checklist.lightning import (
    Callback,
    Checkpoint,
    EarlyStopping,
    LightningModule,
    ProgressBar,
    Trainer,
    is_overridden,
)

NAME = "trace.json"
TRANSFER = ("on_before_batch_transfer", "on_after_batch_transfer")  # in which a project transforms whole batches
VIEW = "open it in https://ui.perfetto.dev or chrome://tracing"


def held(*arguments: Any, **options: Any) -> None:
    """In the place of a scheduler's step(): the learning rate stays as it is."""


class Profile(Experiment):
    """Measures how long a step waits for data, and how long it computes.

    Waiting is the time from the end of a training batch to the start of the next one: fetching it, collating it in
    this process or waiting for a worker, and moving it to the device. What the project's own hooks around that make of
    a batch, such as augmentation on the device, is computing. Loaders keep their workers.

    Args:
        warm_up: first steps that are not measured.
        traced: last steps, of which torch's profiler writes a trace.
        shown: operations in the table.
    """

    item = "profile"
    shapes_run = True
    ends_with_fit = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, Checkpoint, ProgressBar)

    def __init__(self, topics: Sequence[str], warm_up: int, traced: int, shown: int) -> None:
        super().__init__(topics)
        self.warm_up, self.traced, self.shown = warm_up, traced, shown
        self.waited: list[float] = []
        self.computed: list[float] = []
        self.transforming = 0.0  # seconds in such hooks since the last step
        self.steps = 0
        self.ended: float | None = None
        self.profiler: profile | None = None
        self.tracing = False
        self.calls = cProfile.Profile()
        self.loader: Any = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        limit, batches = trainer.limit_train_batches, trainer.num_training_batches
        if batches == 1:
            self.skip("an epoch has one batch, so that no step waits for the next one")
            raise FitEnded(self.skipped)
        if isinstance(limit, int) and batches < limit:  # so few in an epoch that it takes several
            epochs = math.ceil(limit / batches)
            trainer.fit_loop.max_epochs = trainer.current_epoch + epochs
            batches *= epochs
            for config in trainer.lr_scheduler_configs:  # it may end with the steps that it was made for
                vars(config.scheduler)["step"] = held
        self.whole, self.first_traced = batches, batches - self.traced
        self.loader = next(iter(trainer.fit_loop._combined_loader.flattened), None)
        # A step lasts from before the first hook to after the last one, which is the module's.
        trainer.callbacks = [self, *(each for each in trainer.callbacks if each is not self)]
        last = pl_module.on_train_batch_end

        def end(*arguments: Any, **options: Any) -> None:
            pass_on(last, *arguments, **options)
            self._end_step(pl_module)

        self.watching.callback(put(pl_module, "on_train_batch_end", end))
        for owner in filter(None, (pl_module, trainer.datamodule)):
            for hook in (each for each in TRANSFER if is_overridden(each, owner)):
                self.watching.callback(put(owner, hook, partial(self._transform, pl_module, getattr(owner, hook))))

    def _transform(self, pl_module: LightningModule, hook: Callable[..., Any], *given: Any, **options: Any) -> Any:
        began = now(pl_module)
        try:
            return pass_on(hook, *given, **options)
        finally:
            self.transforming += now(pl_module) - began

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.ended, self.transforming = None, 0.0  # between epochs lies validation

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.steps >= self.first_traced and self.profiler is None:  # loading is left out: see _end_step
            self.traced = 1
            self._trace()
        self.began = now(pl_module)
        if self.ended is not None and self.profiler is None and self.steps >= self.warm_up:
            self.waited.append(self.began - self.ended - self.transforming)
        self.began, self.transforming = self.began - self.transforming, 0.0

    def _end_step(self, pl_module: LightningModule) -> None:
        if self.profiler is None and self.steps >= self.warm_up:
            self.computed.append(now(pl_module) - self.began)
        self.steps += 1
        if self.traced == 1 or self.steps == self.whole:
            self._stop()
        # Loading that takes longer than steps may be millions of operations, which a trace takes minutes to sort.
        if self.profiler is None and self.steps >= self.first_traced and sum(self.waited) <= sum(self.computed):
            self._trace()
        self.ended = now(pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.at_the_end = True
        self.watching.close()
        self._stop()
        if not self.waited or not self.computed:
            return
        waited, computed = typical(self.waited, getattr(self.loader, "num_workers", 0)), typical(self.computed, 0)
        times = StepTimes(waited, computed, len(self.waited), self.loader, self.calls)
        self.facts |= {"waiting": times.share, "waited_s": waited, "computed_s": computed, "steps": times.steps}
        self.seen = (
            f"{1000 * waited:.1f} ms waiting for data + {1000 * computed:.1f} ms computing a step "
            f"({times.share:.0%} waiting, median of {times.steps})"
        )
        self.ask(self.probes, times)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._stop()

    def conclude(self, folder: Path) -> None:
        if self.skipped is None and not (self.waited and self.computed):
            self.skip(f"too few steps to measure; the first {self.warm_up} don't count")
        if self.profiler is None:
            return
        averages = self.profiler.key_averages()
        key = "self_device_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
        largest = sorted(averages, key=lambda average: -getattr(average, key))[: self.shown]
        total = sum(getattr(average, key) for average in averages) or 1
        (folder / "debug").mkdir(exist_ok=True)
        trace = folder / "debug" / NAME
        self.profiler.export_chrome_trace(str(trace))
        print(f"  {'operation':<48}{'calls':>8}{'ms a step':>12}{'share':>8}")
        for average in largest:
            milliseconds = getattr(average, key) / 1000
            self.facts.setdefault("operations", {})[average.key] = milliseconds / self.traced
            share = getattr(average, key) / total
            print(f"  {average.key[:46]:<48}{average.count:>8}{milliseconds / self.traced:>12.2f}{share:>8.0%}")
        self.seen += f"; most time in {largest[0].key}" if largest else ""
        self.seen += f"; see {shorten(trace)}"
        print(f"  trace of {self.traced} steps: {NAME} ({VIEW})")

    def _trace(self) -> None:
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * torch.cuda.is_available()
        self.profiler, self.tracing = profile(activities=activities), True
        self.profiler.__enter__()
        self.calls.enable()

    def _stop(self) -> None:
        if self.profiler is not None and self.tracing:
            self.tracing = False
            self.calls.disable()
            self.profiler.__exit__(None, None, None)


def now(pl_module: LightningModule) -> float:
    """Return the time when everything that was queued on the device is done."""
    if pl_module.device.type == "cuda":
        torch.cuda.synchronize(pl_module.device)
    return time.perf_counter()


def typical(seconds: list[float], workers: int) -> float:
    """Return the median over as many steps at a time as there are workers, which deliver in bursts."""
    size = min(max(workers, 1), len(seconds))
    whole = range(0, len(seconds) - size + 1, size)
    return statistics.median(sum(seconds[start : start + size]) / size for start in whole)
