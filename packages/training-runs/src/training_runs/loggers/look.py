"""Where to look at what a run has logged."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from pytorch_lightning.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger


def look(loggers: Iterable[Logger], run: Path) -> str | None:
    """Return a command or an address for each logger, a line each, or None where nothing was logged.

    The file of the CSV logger is named where there is no other: people look at curves.

    Args:
        loggers: those of the run's Trainer.
        run: the run's directory as the user names it; TensorBoard shows it beside all others where it lies among them.
    """
    ways = [way for logger in loggers if (way := way_of(logger, run)) is not None]
    shown = [way for way in ways if not way.endswith(".csv")] or ways
    return "\n".join(shown) or None


def way_of(logger: Logger, run: Path) -> str | None:
    if isinstance(logger, TensorBoardLogger):
        return f"tensorboard --logdir {run if run.is_absolute() or not run.parts else run.parts[0]}"
    if isinstance(logger, WandbLogger):
        return wandb(logger, run)
    if isinstance(logger, MLFlowLogger):
        return mlflow(str(logger._tracking_uri))
    if isinstance(logger, CSVLogger):
        return str(below(Path(logger.log_dir) / "metrics.csv", run))
    return None


def wandb(logger: WandbLogger, run: Path) -> str:
    """Return the page of a run that was sent, or the command that sends one that was logged offline."""
    logged = logger.experiment
    return str(logged.url) if logged.url else f"wandb sync {shlex.quote(str(below(Path(logged.dir).parent, run)))}"


def mlflow(uri: str) -> str:
    """Return the address of a tracking server, or the command that serves what lies in files."""
    return uri if uri.startswith("http") else f"mlflow ui --backend-store-uri {shlex.quote(uri)}"


def below(path: Path, run: Path) -> Path:
    """Return `path` as the user names the run that it lies in."""
    absolute = run.absolute()
    return run / path.absolute().relative_to(absolute) if path.absolute().is_relative_to(absolute) else path
