"""The LightningModule that trains any network on a classification task."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.checkpoint import checkpoint
from training_config.errors import ConfigError
from training_runs.schedules import build_schedule

from .criterion_arguments import Scores, Takes, Targets, criterion_arguments
from .initialization import INITIALIZATIONS
from .metrics import LossAndAccuracy
from .parameter_groups import parameter_groups

Batch = tuple[Tensor, Tensor]
COMPILE_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


class ImageClassifier(LightningModule):
    """Trains `net` with whatever criterion, optimizer and scheduler the config composes.

    Args:
        net: images (B, C, H, W) -> logits (B, num_classes).
        criterion: takes logits and class indices, or what `criterion_takes` or `criterion_arguments.TAKES` says.
        optimizer: partial that lacks only the parameters.
        scheduler: Lightning's `lr_scheduler` dictionary, with under `scheduler` a partial that lacks only the
            optimizer (and `total_steps`, if it takes that), or None for a constant rate.
        init: how weights start, a key of `INITIALIZATIONS`.
        checkpoint_stages: submodules of `net` whose activations are recomputed instead of kept: less memory, more time,
            the same results. One with BatchNorm updates its running statistics twice a step.
        decay_norms_and_biases: whether weight decay applies to them too.
        channels_last: whether the weights of convolutions, and with them the images between, lie channels last.
        compile: whether `torch.compile` translates `net`; a mode of it, or True for its default one.
        criterion_takes: scores and targets for a criterion that `criterion_arguments` does not know.
    """

    def __init__(
        self,
        net: nn.Module,
        criterion: nn.Module,
        optimizer: Callable[..., Optimizer],
        scheduler: Mapping[str, Any],
        init: str,
        checkpoint_stages: Sequence[str],
        decay_norms_and_biases: bool,
        channels_last: bool,
        compile: bool | str,
        criterion_takes: tuple[Scores, Targets] | None = None,
    ) -> None:
        super().__init__()
        if init not in INITIALIZATIONS:
            raise ConfigError(f"model.init={init!r} must be one of {', '.join(INITIALIZATIONS)}")
        mode = "default" if compile is True else compile
        if mode is not False and mode not in COMPILE_MODES:
            raise ConfigError(f"model.compile={compile} must be true, false or one of {', '.join(COMPILE_MODES)}")
        INITIALIZATIONS[init](net)
        for name in checkpoint_stages:
            stage = dict(net.named_modules()).get(name) if name else None
            if stage is None:
                known = ", ".join(child for child, _ in net.named_children())
                raise ConfigError(f"model.checkpoint_stages: the network has no stage {name!r}; it has {known}")
            stage.forward = partial(checkpoint, stage.forward, use_reentrant=False)
        if channels_last:
            net.to(memory_format=torch.channels_last)
        if mode is not False:
            net.compile(mode=mode)  # in place: names in checkpoints stay the same
        self.net = net
        self.criterion = criterion
        if criterion_takes is not None:
            criterion.takes = Takes(*criterion_takes)
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.decay_norms_and_biases = decay_norms_and_biases
        self.train_metrics = LossAndAccuracy()
        self.val_metrics = LossAndAccuracy()
        self.test_metrics = LossAndAccuracy()

    def forward(self, images: Tensor) -> Tensor:
        return self.net(images)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        loss, _ = self._step(batch, self.train_metrics)
        # Each call of self.log costs as much as a small step: only where a logger will write it.
        if (self.trainer.global_step + 1) % self.trainer.log_every_n_steps == 0:
            self.log("train/loss_step", loss)
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return probabilities (B, num_classes), as testing and prediction do."""
        _, logits = self._step(batch, self.val_metrics)
        return self.probabilities(logits)

    def test_step(self, batch: Batch, batch_idx: int) -> Tensor:
        _, logits = self._step(batch, self.test_metrics)
        return self.probabilities(logits)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        images, _ = batch
        return self.probabilities(self(images))

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return what evaluation gets, (B, num_classes): float32 whatever the precision."""
        return logits.float().softmax(dim=1)

    def on_train_epoch_end(self) -> None:
        self._log_epoch("train", self.train_metrics)

    def on_validation_epoch_end(self) -> None:
        self._log_epoch("val", self.val_metrics)

    def on_test_epoch_end(self) -> None:
        self._log_epoch("test", self.test_metrics)

    def configure_optimizers(self) -> OptimizerLRScheduler:
        optimizer = self.optimizer(parameter_groups(self, self.decay_norms_and_biases))
        if self.scheduler["scheduler"] is None:
            return optimizer
        schedule = build_schedule(self.scheduler["scheduler"], optimizer, self._total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {**self.scheduler, "scheduler": schedule}}

    def _step(self, batch: Batch, metrics: LossAndAccuracy) -> tuple[Tensor, Tensor]:
        images, labels = batch
        logits = self(images)
        loss = self.criterion(*criterion_arguments(self.criterion, logits, labels))
        metrics.update(loss, logits, labels, self.criterion)
        return loss, logits

    def _log_epoch(self, split: str, metrics: LossAndAccuracy) -> None:
        values = {f"{split}/{name}": value for name, value in metrics.compute().items()}
        self.log_dict(values, prog_bar=split == "val", sync_dist=True)
        metrics.reset()

    def _total_steps(self) -> int:
        steps = self.trainer.estimated_stepping_batches
        if steps == torch.inf:
            raise ConfigError(
                "this scheduler must know how long training lasts: set trainer.max_epochs or trainer.max_steps, "
                "or choose scheduler=plateau or scheduler=none"
            )
        return int(steps)
