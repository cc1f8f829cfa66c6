"""The directory of a run: refused in one line where it cannot be had, and gone again where no run came of it."""

import logging
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from training_runs.launching import ranks
from training_runs.records.runs import RECORD, RESERVED, holds_run

OF_SWEEPS = ("multirun.yaml", "optimization_results.yaml")  # what Hydra and its Optuna sweeper write beside the jobs


class OutputDirectory(Callback):
    """Hydra's callback that makes the directory of a run or a sweep, and removes that of a run that was refused."""

    def __init__(self) -> None:
        self.made: list[Path] = []  # what was not there, or empty, before this run: the innermost first

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        folder = place(config, "hydra.run.dir")
        again = config.get("resume") is not None or ranks.restarted()
        if holds_run(folder) and not again and not ranks.launched():
            named = config.hydra.run.dir
            sys.exit(
                f"hydra.run.dir={named} holds a run, which would be overwritten; go on with it by resume={named}, "
                "or choose another directory"
            )
        was_there = folder.is_dir() and any(folder.iterdir())
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        make("hydra.run.dir", folder)
        log = folder / f"{config.hydra.job.name}.log"
        if os.path.lexists(log) and not (log.is_file() and os.access(log, os.W_OK)):
            sys.exit(f"{log} is no file that can be written to; move it away, or choose another directory")
        self.made = [] if was_there else missing or [folder]

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        make("hydra.sweep.dir", place(config, "hydra.sweep.dir"))

    def on_run_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        if job_return.status != JobStatus.FAILED or not self.made or (self.made[0] / RECORD).exists():
            return
        folder = self.made[0]
        if not folder.is_dir():  # somebody else has removed it
            return
        hydras = {str(config.hydra.output_subdir), f"{config.hydra.job.name}.log"}
        if {each.name for each in folder.iterdir()} <= hydras:
            close_logs(folder)
            shutil.rmtree(folder / str(config.hydra.output_subdir), ignore_errors=True)
            (folder / f"{config.hydra.job.name}.log").unlink(missing_ok=True)
            with suppress(OSError):  # another process is at work there
                for each in self.made:
                    each.rmdir()


def close_logs(folder: Path) -> None:
    """Close the log files in a folder: Windows removes none that is open."""
    for handler in logging.getLogger().handlers[:]:
        if isinstance(handler, logging.FileHandler) and Path(handler.baseFilename).is_relative_to(folder):
            logging.getLogger().removeHandler(handler)
            handler.close()


def place(config: DictConfig, key: str) -> Path:
    """Return the directory that a run or a sweep is to lie in, or exit where there can be none, or code lies there.

    To exit, because Hydra only warns of what a callback raises.
    """
    try:
        named = str(OmegaConf.select(config, key, throw_on_missing=True))
        folder = Path(named).absolute()
        taken = folder.is_dir() and not (folder / RECORD).is_file() and not is_apart(folder, config)
    except (OmegaConfBaseException, OSError, ValueError) as error:  # ValueError: a null byte
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        sys.exit(f"{key} names no directory ({reason}); choose another with {key}=...")
    subdir = PurePath(str(config.hydra._get_node("output_subdir")))  # a resolver's is not known before the directory
    if subdir.is_absolute() or ".." in subdir.parts:
        sys.exit(f"hydra.output_subdir={subdir} leads out of the run's directory; use a name, or leave it out")
    if "://" in named:  # which a Path would take for the name of a folder here
        sys.exit(
            f"{key}={named} is an address; name a directory, of a mounted store too, and copy the run when it ends"
        )
    if taken or not named:
        sys.exit(
            f"{key}={named} is where code or configs lie, which a run's files would be mixed with; "
            f"choose another directory with {key}=..., such as outputs/mine"
        )
    return folder


def is_apart(folder: Path, config: DictConfig) -> bool:
    """Whether a directory is neither above the configs nor has code or configs, itself or in its folders."""
    confs = [Path(source.path) for source in config.hydra.runtime.config_sources if source.provider == "main"]
    if any(conf.is_relative_to(folder) for conf in confs):
        return False
    found = (path for pattern in ("*.py", "*.yaml", "*/*.py", "*/*.yaml") for path in folder.glob(pattern))
    return all(path.name in OF_SWEEPS or path.parent.name == ".hydra" for path in found)


def make(key: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(RESERVED))
    except OSError as error:
        sys.exit(f"{key}={folder} cannot be written to ({error.strerror}); choose another directory with {key}=...")
