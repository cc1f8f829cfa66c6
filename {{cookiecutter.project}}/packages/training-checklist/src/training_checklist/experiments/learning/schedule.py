"""Whether a learning rate schedule fits the run: rehearsed on a copy, as often as Lightning will step it."""

import copy
import math
import warnings
from collections.abc import Iterator
from typing import Any

from torch.optim.lr_scheduler import LRScheduler

from training_checklist.direction import better
from training_checklist.lightning import LightningModule, Trainer

MAX_CALLS = 20_000  # rehearsed at most
SHOWN = ("step_size", "gamma", "milestones", "T_max", "total_steps", "total_iters")
KEYS = "where configure_optimizers returns the schedule; in a config of its own: scheduler.interval={interval}"

Fault = tuple[str, str, str, str]  # what, where, why, fix


class Schedule:
    """One schedule of the run, and the rates that it will go through.

    Args:
        config: Lightning's `LRSchedulerConfig`.
    """

    def __init__(self, config: Any, trainer: Trainer) -> None:
        batches, accumulated = trainer.num_training_batches, trainer.accumulate_grad_batches
        self.scheduler, self.interval, self.frequency = config.scheduler, config.interval, config.frequency
        self.batches, self.steps = batches, trainer.estimated_stepping_batches
        self.per_epoch, self.epochs = math.inf, math.inf
        if math.isfinite(batches) and math.isfinite(self.steps):
            # Lightning counts batches, anew in each epoch, and steps a schedule at steps of the optimizer.
            stepping = [number for number in range(1, batches + 1) if number % accumulated == 0 or number == batches]
            self.epochs = self.steps / len(stepping)
            self.per_epoch = sum(number % self.frequency == 0 for number in stepping)
            if self.interval == "epoch":
                self.per_epoch = 1 / self.frequency
        self.calls = self.per_epoch * self.epochs
        groups, self.error = self._rehearse(trainer.lightning_module, self.calls)
        # What it would do if each step of the optimizer were a call.
        longer = self._rehearse(trainer.lightning_module, max(self.calls, self.steps))[0] if self.calls > 0 else groups
        self.whole_course = [max(rates) for rates in longer]
        self.rates, self.peaks = [max(rates) for rates in groups], [max(rates) for rates in zip(*groups, strict=True)]

    def _rehearse(self, pl_module: LightningModule, calls: float) -> tuple[list[list[float]], str]:
        """Return the rates of the optimizer's groups at each call, and what ended them too early."""
        # The module itself is shared: a schedule may be one of its methods.
        _, scheduler = copy.deepcopy((self.scheduler.optimizer, self.scheduler), {id(pl_module): pl_module})
        rates = [[float(rate) for rate in scheduler.get_last_lr()]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, that the copied optimizer takes no step
            for _ in range(int(min(calls, MAX_CALLS))):
                try:
                    scheduler.step()
                except ValueError as error:  # OneCycleLR beyond its end
                    return rates, str(error)
                rates.append([float(rate) for rate in scheduler.get_last_lr()])
        return rates, ""

    def __str__(self) -> str:
        shown = ", ".join(f"{key}={getattr(self.scheduler, key)}" for key in SHOWN if hasattr(self.scheduler, key))
        return f"lr_scheduler {type(self.scheduler).__name__}({shown}) with interval={self.interval}"

    def faults(self, min_rate: float) -> Iterator[Fault]:
        """Yield what is wrong; `min_rate` is the share of the peak that the first of several epochs must leave."""
        if not math.isfinite(self.calls):
            return
        run = f"{self.steps} steps in {self.epochs:g} epochs"
        whole = getattr(self.scheduler, "total_steps", None) or getattr(self.scheduler, "T_max", None) or math.nan
        by_epoch, by_step = (f'"interval": "{unit}" {KEYS.format(interval=unit)}' for unit in ("epoch", "step"))
        ends = max(1, int(self.per_epoch))
        later = self.rates[ends:]
        if self.error:
            why = f"training ends with an exception: {self.error.splitlines()[0]}"
            yield f"it ends after {len(self.rates) - 1} calls, and the run has {run}", str(self), why, self._length()
        elif self.calls < 1 and self.frequency > 1:
            of = f"{self.batches} batches" if self.interval == "step" else f"{self.epochs:g} epochs"
            what = f"it is never stepped: frequency={self.frequency}, but there are {of} to count"
            yield what, str(self), "the learning rate stays what it is at first", f'"frequency": 1 {KEYS[:50]}'
        elif self.interval == "step" and self.epochs >= 2 and max(later, default=1) < min_rate * max(self.rates):
            what = f"the learning rate falls from {max(self.rates):.3g} to {later[0]:.1e} within the first epoch"
            why = (
                f"of {self.epochs:g} epochs: nothing is learnt after that; it looks written for epochs, not for batches"
            )
            yield what, str(self), why, by_epoch
        elif self.interval == "step" and self.epochs >= 2 and self.calls >= 3 * whole and near(whole, self.epochs):
            what = f"it is made for {whole} calls and gets {self.calls:.0f}: the run has {run}"
            yield what, str(self), "its length is counted in epochs, but it steps by batches", by_epoch
        elif self.interval == "epoch" and whole > 3 * self.calls and near(whole, self.steps):
            what = f"it is made for {whole} calls and gets {self.calls:.0f}: the run has {run}"
            why = f"its length is counted in steps, but it steps by epochs: the last rate is {self.rates[-1]:.3g}"
            yield what, str(self), why, by_step
        elif self.interval == "epoch" and self._is_made_for_steps():
            peak = self.whole_course.index(max(self.whole_course))
            what = f"it rises until call {peak} and gets {self.calls:.0f} in a run of {run}"
            why = f"it looks written for steps, but it steps by epochs: of its {max(self.whole_course):.3g} the rate "
            why += f"reaches {max(self.rates):.3g}"
            yield what, str(self), why, by_step
        elif hasattr(self.scheduler, "total_steps") and whole > 3 * self.calls:
            what = f"it is made for {whole} calls and gets {self.calls:.0f}: the run has {run}"
            why = f"the run ends at a rate of {self.rates[-1]:.3g}, long before the schedule does"
            yield what, str(self), why, self._length()

    def _is_made_for_steps(self) -> bool:
        """Whether the run ends in a warm-up that is long only in epochs, before a decay that ends with its steps."""
        course, peak = self.whole_course, max(self.whole_course)
        if max(self.rates) > 0.5 * peak:
            return False
        above = [call for call, rate in enumerate(course) if rate > 0.1 * peak]
        return near(above[-1], self.steps) or (self.calls >= 3 and course.index(peak) > 10 * self.calls)

    def _length(self) -> str:
        return f"total_steps={self.steps} (trainer.estimated_stepping_batches) with interval=step"


def lost(trainer: Trainer) -> Iterator[Fault]:
    """Yield what is wrong where a schedule was made and nobody can step it."""
    # Every schedule leaves this key in its optimizer; so does a checkpoint.
    scheduled = any("initial_lr" in group for optimizer in trainer.optimizers for group in optimizer.param_groups)
    held = any(isinstance(value, LRScheduler) for value in vars(trainer.lightning_module).values())
    if scheduled and not held and not trainer.lr_scheduler_configs and trainer.ckpt_path is None:
        fix = 'return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}'
        why = "it is never stepped: the learning rate stays what it is at first"
        yield "a schedule was made for the optimizer, but nobody has it", "configure_optimizers", why, fix


def reversed_modes(trainer: Trainer) -> Iterator[Fault]:
    """Yield the schedules that wait for a metric to get worse."""
    for config in trainer.lr_scheduler_configs:
        wanted, mode = better(config.monitor or ""), getattr(config.scheduler, "mode", None)
        if config.reduce_on_plateau and wanted is not None and mode != wanted:
            what = f"ReduceLROnPlateau has mode={mode}, but more of {config.monitor} is "
            what += "better" if wanted == "max" else "worse"
            why = "it lowers the learning rate as long as training gets on"
            where = f"ReduceLROnPlateau(mode={mode!r}) on {config.monitor}"
            yield what, where, why, f'mode="{wanted}" where it is made'


def near(whole: float, length: float) -> bool:
    return abs(whole - length) <= 0.2 * length
