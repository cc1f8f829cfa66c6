"""Figures of a run's predictions, drawn from what passes through the Trainer anyway."""

from pathlib import Path
from typing import Any, Literal

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor
from torch.utils.data import Subset
from torchmetrics.aggregation import CatMetric
from training_config.errors import ConfigError
from training_runs import drawing

from . import contract


class PredictionFigures(Callback):
    """Writes confusion matrix, worst mistakes and calibration to `folder`; TensorBoard has them too, and the network.

    They need batches of (images, labels), probabilities (B, num_classes) from `test_step`, and `class_names` and
    `test_set` of the DataModule, as `contract` has them. What cannot be had is left out.

    Args:
        enabled: nothing is kept or drawn otherwise, nor with `fast_dev_run`; of the jobs of a sweep where it is "each".
        folder: where the files go.
        split: test, or val for a run without a test.
        worst: how many mistakes to show.
    """

    def __init__(self, enabled: bool | Literal["each"], folder: str, split: str, worst: int) -> None:
        if split not in ("test", "val"):
            raise ConfigError(f"callbacks.figures.split={split} must be test or val")
        self.enabled, self.folder, self.split, self.worst = enabled, Path(folder), split, worst
        self.example: Tensor | None = None  # (1, C, H, W)
        self.kept: dict[str, CatMetric] = {}  # of the last evaluation
        self.seen = 0  # samples in it

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        self._keep("val", trainer, outputs, batch, batch_idx)

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, *_: Any
    ) -> None:
        self._keep("test", trainer, outputs, batch, batch_idx)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.example is not None:
            for logger in trainer.loggers:
                logger.log_graph(pl_module, self.example)
        if self.split == "val":
            self._draw_predictions(trainer)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.split == "test":
            self._draw_predictions(trainer)

    def _keep(self, split: str, trainer: Trainer, outputs: Any, batch: Any, batch_idx: int) -> None:
        if not drawing.wanted(self.enabled) or trainer.fast_dev_run or not is_pair(batch):
            return
        images, labels = batch
        self.example = images[:1]
        if split != self.split or not isinstance(outputs, Tensor) or outputs.ndim != 2:
            return
        if labels.shape != contract.labels_shape(trainer.datamodule, outputs):
            return
        if batch_idx == 0:
            self.kept = {name: CatMetric(nan_strategy="disable") for name in ("probabilities", "labels", "indices")}
            self.seen = 0
        # Every rank evaluates each world_size-th sample.
        within = torch.arange(self.seen, self.seen + len(labels), device=labels.device)
        self.seen += len(labels)
        kept = {
            "probabilities": outputs.detach(),
            "labels": labels,
            "indices": within * trainer.world_size + trainer.global_rank,
        }
        for name, values in kept.items():
            self.kept[name].update(values)

    def _draw_predictions(self, trainer: Trainer) -> None:
        if getattr(trainer.datamodule, "class_names", None) is None or not self.seen:
            return
        # On all ranks, each of which has a part.
        probabilities, labels, indices = (metric.compute().cpu() for metric in self.kept.values())
        if not trainer.is_global_zero:
            return
        from training_runs.figures import save  # matplotlib takes half a second, which only the end of a run needs

        from .figures import of_predictions

        labels, indices = labels.long(), indices.long()
        dataset = getattr(trainer.datamodule, f"{self.split}_set", None)
        shown, names = None, ()
        known = getattr(dataset, "labels", None)
        if known is not None and torch.equal(known[indices].long(), labels) and is_picture(dataset[0][0]):
            shown, names = Subset(dataset, indices.tolist()), getattr(dataset, "names", ())
            names = [names[index] for index in indices.tolist()] if names else ()
        drawn = of_predictions(trainer.datamodule, probabilities, labels, shown, self.worst, names)
        for name, figure in drawn.items():
            save(figure, self.folder / name)
            for logger in trainer.loggers:
                if hasattr(logger, "log_png"):
                    logger.log_png(f"{self.split}/{name}", self.folder / f"{name}.png", trainer.global_step)


def is_pair(batch: Any) -> bool:
    return isinstance(batch, (list, tuple)) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch)


def is_picture(sample: Any) -> bool:
    return isinstance(sample, Tensor) and sample.dtype == torch.uint8 and sample.ndim == 3 and len(sample) in (1, 3)
