"""The checkpoint from which training goes on as if it had never stopped."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import torch
from pydantic import PositiveInt
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn
from torch import distributed
from torch.utils.data import DataLoader
from torchmetrics import Metric
from training_config.errors import ConfigError

from training_runs.checkpoints.random_state import random_state, set_random_state
from training_runs.checkpoints.stop_signals import StopSignals
from training_runs.launching import ranks
from training_runs.launching.parent import STOPS, TIME_LIMIT
from training_runs.sampling.epoch_sampler import SHUFFLE, EpochSampler

KEY = "between_batches"  # of what this callback adds to a checkpoint


class LastCheckpoint(Callback):
    """Keeps `last.ckpt`: written before every epoch, when training ends, and when the process is asked to stop.

    Always between two batches, with all that the next one depends on: beside what Lightning saves, the random
    generators and half-filled metrics of every rank, and the metrics that schedulers and callbacks look at. A
    ModelCheckpoint is written amid the end of an epoch or batch: a plateau schedule, a validation or the rest of the
    epoch is lost when training is resumed from it. To be the first of the callbacks, so that none has begun the next
    batch. SIGINT and `STOPS` end training after the batch (and its validation) in progress; a second one at once. So
    does `TIME_LIMIT` in a job of SLURM, which then starts the job again.

    Args:
        dirpath: where the file lies.
        every_n_train_steps: also after every so many optimizer steps.
    """

    def __init__(self, dirpath: str, every_n_train_steps: PositiveInt | None = None) -> None:
        self.path = Path(dirpath) / "last.ckpt"
        self.every_n_train_steps = every_n_train_steps
        self.signals = StopSignals()
        self._moment: str | None = None  # while this callback saves: epoch, batch or end
        self._due: dict[str, Any] | None = None  # random state after a batch after which to save
        self._saved_step = 0
        self._resumed: dict[str, Any] | None = None
        self._max_steps = -1

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if trainer.state.fn != TrainerFn.FITTING or KEY not in checkpoint:
            return
        check_ranks(trainer, checkpoint)
        self._resumed = checkpoint[KEY]
        self._saved_step = checkpoint["global_step"]
        trainer.num_sanity_val_steps = 0
        for each in trainer.checkpoint_callbacks:  # Lightning 2.6 writes it, and does not read it
            if isinstance(each, ModelCheckpoint):
                each.current_score = checkpoint["callbacks"].get(each.state_key, {}).get("current_score")
        # Not when training begins: it does not where all epochs are done, and what is tested and drawn is logged again.
        rewind(trainer, self._resumed["logged_steps"])
        # Lightning does so later: too late for a schedule that asks for the length of training, and so makes loaders.
        trainer.fit_loop.load_state_dict(checkpoint["loops"]["fit_loop"])

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.begin(signal.SIGINT)  # before worker processes start, which inherit it
        if ranks.can_requeue():  # Lightning's own, which is not set then, would save amid a batch
            self.signals.begin(*(each for each in TIME_LIMIT if signal.getsignal(each) == signal.SIG_DFL))
        if self._resumed is not None:
            trainer.callback_metrics.update(self._resumed["callback_metrics"])
            trainer.should_stop = self._resumed["should_stop"]
            if self._resumed["moment"] != "batch":
                # Lightning 2.6.6 would go through the end of the last epoch again where max_steps is set.
                self._max_steps, trainer.fit_loop.epoch_loop.max_steps = trainer.max_steps, -1

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.signals.begin(*STOPS)  # Lightning has just set its own for SIGTERM, which stops amid a validation
        if self._resumed is None:
            rewind(trainer, 0)
        else:
            own = self._resumed["ranks"][trainer.global_rank]
            set_random_state(own["random_state"], trainer.strategy.root_device)
            set_metrics(pl_module, own["metrics"])
            loader = trainer.train_dataloader
            check_order(loader, self._resumed)
            drawing = isinstance(loader, DataLoader) and loader.generator is None and not loader.persistent_workers
            if self._resumed["moment"] == "epoch" and trainer.current_epoch > 0 and drawing:
                torch.empty((), dtype=torch.int64).random_()  # the loader drew its seed for this epoch too early
            if self._max_steps != -1:
                trainer.fit_loop.epoch_loop.max_steps, self._max_steps = self._max_steps, -1
        self._resumed = None

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer, "epoch")

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        due = self.signals.due(trainer) or (
            self.every_n_train_steps is not None
            and trainer.global_step % self.every_n_train_steps == 0
            and trainer.global_step != self._saved_step
        )
        stepped = (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if due and stepped and not trainer.is_last_batch:
            # Before the next batch is loaded and moved: that may draw random numbers.
            self._due = random_state(trainer.strategy.root_device)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self._due is not None:
            self._save(trainer, "batch")

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # Lightning 2.6.6 would leave out a plateau schedule's step at the end of an epoch that was resumed.
        trainer.fit_loop._restarting = False

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._save(trainer, "end")

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.signals.end()
        if self.signals.received in TIME_LIMIT:
            self._leave(trainer)
        if self.signals.received is not None:  # by this rank alone, too late for all to stop at one step
            signal.raise_signal(self.signals.received)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self.signals.end()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if self._moment is None:  # another callback's
            return
        loops = checkpoint["loops"]["fit_loop"]
        logged_steps = loops["epoch_loop.state_dict"]["_batches_that_stepped"]
        if self._moment == "epoch":  # as it was before the epoch was begun
            for progress in loops["epoch_progress"].values():
                progress["ready"] -= 1
            batches = loops["epoch_loop.batch_progress"]
            batches |= {"current": dict.fromkeys(batches["current"], 0), "is_last_batch": False}
        elif self._moment == "batch":  # as Lightning has it in `on_train_batch_end` of the batch before
            loops["epoch_loop.batch_progress"]["is_last_batch"] = False
            for progress in (loops["epoch_loop.batch_progress"][part] for part in ("total", "current")):
                progress["ready"] -= 1
                progress["completed"] -= 1
            loops["epoch_loop.state_dict"]["_batches_that_stepped"] -= 1
        own = {
            "random_state": self._due or random_state(trainer.strategy.root_device),
            "metrics": dict(metrics(pl_module)),
        }
        of_ranks = [own] * trainer.world_size
        if trainer.world_size > 1:
            distributed.all_gather_object(of_ranks, own)
        checkpoint[KEY] = {
            "moment": self._moment,
            "shuffle": SHUFFLE,
            "ranks": of_ranks,
            "callback_metrics": {name: value.cpu() for name, value in trainer.callback_metrics.items()},
            "should_stop": self._moment == "end" and trainer.should_stop,
            "logged_steps": logged_steps,
        }

    def _save(self, trainer: Trainer, moment: str) -> None:
        for logger in trainer.loggers:
            logger.save()
        self._moment = moment
        try:
            trainer.save_checkpoint(self.path, weights_only=False)
        finally:
            self._moment = self._due = None
        self._saved_step = trainer.global_step
        if self.signals.due(trainer):
            self._leave(trainer)

    def _leave(self, trainer: Trainer) -> NoReturn:
        if self.signals.received in TIME_LIMIT:
            ranks.requeue(first=trainer.is_global_zero)
        raise SystemExit(128 + self.signals.received)


def rewind(trainer: Trainer, step: int) -> None:
    """Have loggers forget what was logged at `step` or later: it will be logged again."""
    for logger in trainer.loggers:
        if hasattr(logger, "rewind"):
            logger.rewind(step)


def check_ranks(trainer: Trainer, checkpoint: dict[str, Any]) -> None:
    """Refuse to go on in another number of processes than a `LastCheckpoint` was written by.

    Raises:
        ConfigError: their random generators and half-filled metrics could not be shared out, or are not there.
    """
    count = len(checkpoint[KEY]["ranks"]) if KEY in checkpoint else trainer.world_size
    if not count:
        raise ConfigError(
            f"the checkpoint is damaged: {KEY}.ranks is empty, where the state of each process should be; resume from "
            "another one, or start a new run"
        )
    if count != trainer.world_size:
        raise ConfigError(
            f"this run was trained by {count} processes and cannot go on with {trainer.world_size}: resume it "
            f"on {count} devices, or start a new run"
        )


def check_order(loader: Any, saved: dict[str, Any]) -> None:
    """Refuse to go on amid an epoch whose samples an earlier version of `EpochSampler` has put into another order.

    Raises:
        ConfigError: the rest of the epoch would have samples again and leave others out.
    """
    ordered = isinstance(getattr(loader, "sampler", None), EpochSampler)
    if ordered and saved["moment"] == "batch" and saved.get("shuffle") != SHUFFLE:
        raise ConfigError(
            "this run stopped amid an epoch that another version of training-runs has shuffled; train the epoch to its "
            "end with that version (git checkout its wheels/ and requirements.lock, make install), or start a new run"
        )


def trained(checkpoint: dict[str, Any]) -> tuple[int, int]:
    """Return the epochs that a checkpoint has behind it, one that it is amid among them, and the optimizer steps."""
    return checkpoint["epoch"] + (checkpoint.get(KEY, {}).get("moment") == "batch"), checkpoint["global_step"]


def metrics(pl_module: LightningModule) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and state of every metric: what it has summed up since its last reset."""
    for name, module in pl_module.named_modules():
        if isinstance(module, Metric):
            state = {key: _on(value, "cpu") for key, value in module.metric_state.items()}
            yield name, {"updates": module.update_count, "state": state}


def set_metrics(pl_module: LightningModule, saved: dict[str, dict[str, Any]]) -> None:
    for name, module in pl_module.named_modules():
        if isinstance(module, Metric) and name in saved:
            module._update_count = saved[name]["updates"]  # else `compute` warns that there was none
            for key, value in saved[name]["state"].items():
                setattr(module, key, _on(value, module.device))


def _on(value: Any, device: Any) -> Any:
    return [part.to(device) for part in value] if isinstance(value, list) else value.to(device, copy=True)
