"""Where to look at what a run has logged."""

from collections.abc import Iterable
from pathlib import Path

from pytorch_lightning.loggers import CSVLogger, Logger, TensorBoardLogger


def look(loggers: Iterable[Logger], run: Path) -> str | None:
    """Return a command for TensorBoard, else the file of the CSV logger; None where neither has logged.

    Args:
        loggers: those of the run's Trainer; others say themselves where they have logged.
        run: the run's directory as the user names it; TensorBoard shows it beside all others where it lies among them.
    """
    loggers = list(loggers)
    if any(isinstance(logger, TensorBoardLogger) for logger in loggers):
        return f"tensorboard --logdir {run if run.is_absolute() or not run.parts else run.parts[0]}"
    table = next((Path(logger.log_dir) / "metrics.csv" for logger in loggers if isinstance(logger, CSVLogger)), None)
    if table is not None and table.absolute().is_relative_to(run.absolute()):
        return str(run / table.absolute().relative_to(run.absolute()))
    return None if table is None else str(table)
