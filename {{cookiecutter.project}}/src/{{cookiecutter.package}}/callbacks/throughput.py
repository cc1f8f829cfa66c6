import time
from typing import Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.utilities.data import extract_batch_size


class Throughput(Callback):
    """Logs `train/samples_per_second` of all devices and `train/data_wait`, at the steps that are logged.

    `data_wait` is the share (0..1) of this process's time from the end of a batch to the start of the next one:
    fetching it and moving it to the device. Nothing waits for the device on account of it; Lightning's
    ThroughputMonitor does, in every step.
    """

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart(trainer)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.waited += time.perf_counter() - self.ended
        self.samples += extract_batch_size(batch)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.ended = time.perf_counter()
        every = trainer.log_every_n_steps
        if not every or trainer.global_step % every or trainer.global_step == self.step:
            return
        seconds = self.ended - self.started
        rate, wait = self.samples * trainer.world_size / seconds, self.waited / seconds
        for logger in trainer.loggers:
            logger.log_metrics(
                {"train/samples_per_second": rate, "train/data_wait": wait}, step=trainer.global_step - 1
            )
        self._restart(trainer)

    def _restart(self, trainer: Trainer) -> None:
        self.started = self.ended = time.perf_counter()
        self.waited, self.samples, self.step = 0.0, 0, trainer.global_step
