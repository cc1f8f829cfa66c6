import time
from typing import Annotated, Any, Literal

from pydantic import Field
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.strategies import FSDPStrategy, ModelParallelStrategy
from pytorch_lightning.utilities.data import extract_batch_size
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

# inf: the largest entry.
Norm = Annotated[float, Field(gt=0)] | Literal["inf"]


class StepMonitor(Callback):
    """Logs what steps are like, at those that are logged. One callback: Lightning calls every hook of each.

    `train/gradient_norm` is over all parameters, before clipping; not where a strategy shards the model.
    `train/samples_per_second` is of all devices. `train/data_wait` is the share (0..1) of this process's time from the
    end of a batch to the start of the next one: fetching it and moving it to the device. Nothing waits for the device
    on account of these; Lightning's ThroughputMonitor does, in every step.
    """

    only_reports = True  # its values may be others when a run goes on

    def __init__(self, norm_type: Norm) -> None:
        self.norm_type = float(norm_type)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart(trainer)  # an epoch that goes on after a resume has no start

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._restart(trainer)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.waited += time.perf_counter() - self.ended
        self.samples += extract_batch_size(batch)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        sharded = isinstance(trainer.strategy, (FSDPStrategy, ModelParallelStrategy))
        if not sharded and is_logged(trainer, trainer.global_step + 1):
            gradients = [parameter.grad for parameter in pl_module.parameters() if parameter.grad is not None]
            self.norm = {"train/gradient_norm": get_total_norm(gradients, self.norm_type)}

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self.ended = time.perf_counter()
        step = trainer.global_step
        if step == self.step or not is_logged(trainer, step):  # the same where gradients are accumulated
            return
        seconds = self.ended - self.started
        rate = self.samples * trainer.world_size / seconds
        values = {"train/samples_per_second": rate, "train/data_wait": self.waited / seconds} | self.norm
        # Not self.log: that would cost a step as much as a small network, and make a metric of the run of it.
        for logger in trainer.loggers:
            logger.log_metrics(values, step=step - 1)
        self._restart(trainer)

    def _restart(self, trainer: Trainer) -> None:
        self.started = self.ended = time.perf_counter()
        self.waited, self.samples, self.step = 0.0, 0, trainer.global_step
        self.norm: dict[str, Tensor] = {}


def is_logged(trainer: Trainer, step: int) -> bool:
    return trainer.log_every_n_steps > 0 and step % trainer.log_every_n_steps == 0
