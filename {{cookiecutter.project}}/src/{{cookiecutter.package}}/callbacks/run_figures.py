"""Figures of a run, drawn from what passes through the Trainer anyway."""

import csv
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor
from torchmetrics.aggregation import CatMetric

from ..errors import ConfigError
from ..loggers import TensorBoardLogger


class RunFigures(Callback):
    """Writes learning curves, confusion matrix, worst mistakes and calibration to `folder`; TensorBoard has them too.

    Learning curves need the CSV logger. The others need batches of (images, labels), probabilities (B, num_classes)
    from `test_step`, and `class_names` and `test_set` of the DataModule. What cannot be had is left out.

    Args:
        enabled: nothing is kept or drawn otherwise, nor with `fast_dev_run`.
        folder: where the files go.
        split: test, or val for a run without a test.
        worst: how many mistakes to show.
    """

    def __init__(self, enabled: bool, folder: str, split: str, worst: int) -> None:
        if split not in ("test", "val"):
            raise ConfigError(f"callbacks.figures.split={split} must be test or val")
        self.enabled, self.folder, self.split, self.worst = enabled, Path(folder), split, worst
        self.example: Tensor | None = None  # (1, C, H, W)
        self.kept: dict[str, CatMetric] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.enabled = self.enabled and not trainer.fast_dev_run

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start("val")

    def on_test_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._start("test")

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self._keep("val", trainer, outputs, batch)

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self._keep("test", trainer, outputs, batch)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.enabled:
            return
        if self.example is not None:
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    logger.log_graph(pl_module, self.example)
        if trainer.is_global_zero:
            self._draw_curves(trainer)
        if self.split == "val":
            self._draw_predictions(trainer)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.enabled and self.split == "test":
            self._draw_predictions(trainer)

    def _start(self, split: str) -> None:
        if split == self.split:
            self.kept = {name: CatMetric(nan_strategy="disable") for name in ("probabilities", "labels", "indices")}
            self.seen = 0

    def _keep(self, split: str, trainer: Trainer, outputs: Any, batch: Any) -> None:
        if not self.enabled or not is_pair(batch):
            return
        images, labels = batch
        self.example = images[:1]
        if split != self.split or not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(labels):
            return
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

    def _draw_curves(self, trainer: Trainer) -> None:
        from ..evaluation import figures  # half a second that only the end of a run needs

        logger = next((logger for logger in trainer.loggers if isinstance(logger, CSVLogger)), None)
        curves = {} if logger is None else read_curves(Path(logger.log_dir) / "metrics.csv")
        if curves:
            figures.save(figures.learning_curves(curves), self.folder / "learning_curves")

    def _draw_predictions(self, trainer: Trainer) -> None:
        from ..evaluation import figures  # half a second that only the end of a run needs

        classes = getattr(trainer.datamodule, "class_names", None)
        if classes is None or not self.seen:
            return
        # On all ranks, each of which has a part.
        probabilities, labels, indices = (metric.compute().cpu() for metric in self.kept.values())
        if not trainer.is_global_zero:
            return
        labels, indices = labels.long(), indices.long()
        drawn = {
            "confusion_matrix": figures.confusion_matrix(probabilities, labels, classes),
            "calibration": figures.calibration(probabilities, labels),
        }
        dataset = getattr(trainer.datamodule, f"{self.split}_set", None)
        images = getattr(dataset, "images", None)
        if images is not None and torch.equal(dataset.labels[indices], labels):
            picked = images[indices]
            drawn["worst_mistakes"] = figures.worst_mistakes(picked, probabilities, labels, classes, self.worst)
        for name, figure in drawn.items():
            figures.save(figure, self.folder / name)
            for logger in trainer.loggers:
                if isinstance(logger, TensorBoardLogger):
                    logger.log_png(f"{self.split}/{name}", self.folder / f"{name}.png", trainer.global_step)


def is_pair(batch: Any) -> bool:
    return isinstance(batch, (list, tuple)) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch)


def read_curves(table: Path) -> dict[str, list[tuple[int, float]]]:
    """Return the (step, value) points of every metric that validation has, of training and validation."""
    if not table.is_file():
        return {}
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    metrics = [name.removeprefix("val/") for name in (rows[0] if rows else {}) if name.startswith("val/")]
    curves = {
        f"{split}/{metric}": [
            (int(row["step"]), float(row[f"{split}/{metric}"])) for row in rows if row.get(f"{split}/{metric}")
        ]
        for metric in metrics
        for split in ("train", "val")
    }
    return {name: points for name, points in curves.items() if points}
