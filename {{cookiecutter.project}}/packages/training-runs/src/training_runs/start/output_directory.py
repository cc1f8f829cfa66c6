"""Refuses, in one line and before Hydra writes to it, a directory that cannot be had."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from training_runs.launching import ranks
from training_runs.records.runs import holds_run


class OutputDirectory(Callback):
    """Hydra's callback that makes the directory of a run or a sweep."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        folder = config.hydra.run.dir
        again = config.get("resume") is not None or int(os.environ.get("SLURM_RESTART_COUNT", "0")) > 0
        if holds_run(Path(folder)) and not again and not ranks.launched():
            sys.exit(
                f"hydra.run.dir={folder} holds a run, which would be overwritten; go on with it by resume={folder}, "
                "or choose another directory"
            )
        make("hydra.run.dir", folder)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        make("hydra.sweep.dir", config.hydra.sweep.dir)


def make(key: str, folder: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:  # an exit, because Hydra only warns of what a callback raises
        sys.exit(f"{key}={folder} cannot be written to ({error.strerror}); choose another directory with {key}=...")
