"""The curves of a training, drawn when it ends."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import CSVLogger

from training_runs import drawing
from training_runs.records.curves import read_curves


class LearningCurves(Callback):
    """Draws every metric of validation, with its twin of training, to `folder`, from what the CSV logger has written.

    Nothing is drawn without a CSV logger, nor with `fast_dev_run`.

    Args:
        enabled: nothing is drawn otherwise; of the jobs of a sweep where it is "each".
        folder: where learning_curves.png and .svg go.
        monitor: the metric whose best value is marked, if it is one of validation; None marks nothing.
        mode: whether the best is the largest, "max", or the smallest, "min".
    """

    only_reports = True  # its values may be others when a run goes on

    def __init__(
        self, enabled: bool | Literal["each"], folder: str, monitor: str | None = None, mode: str = "max"
    ) -> None:
        self.enabled, self.folder = enabled, Path(folder)
        self.monitor, self.mode = monitor, mode

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        logger = next((logger for logger in trainer.loggers if isinstance(logger, CSVLogger)), None)
        if drawing.wanted(self.enabled) and not trainer.fast_dev_run and trainer.is_global_zero and logger is not None:
            self.draw(Path(logger.log_dir) / "metrics.csv")

    def draw(self, table: Path) -> None:
        """Draw the curves that are in `table`, if it has any."""
        curves = read_curves(table)
        if curves:
            from training_runs import figures  # matplotlib takes half a second, which only the end of a run needs

            best = best_point(curves, self.monitor, self.mode)
            figures.save(figures.learning_curves(curves, best), self.folder / "learning_curves")


def best_point(
    curves: Mapping[str, Sequence[tuple[int, float]]], monitor: str | None, mode: str
) -> tuple[str, int] | None:
    """Return `monitor` and the step of its best value, the first of equals; None where no curve is of it."""
    points = [(step, value) for step, value in curves.get(monitor or "", ()) if math.isfinite(value)]
    if monitor is None or not points:
        return None
    return monitor, (max if mode == "max" else min)(points, key=lambda point: point[1])[0]
