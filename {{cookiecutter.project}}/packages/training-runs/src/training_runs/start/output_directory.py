"""Refuses a directory that cannot be written to in one line, before Hydra meets it with a traceback."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback
from omegaconf import DictConfig


class OutputDirectory(Callback):
    """Hydra's callback that makes the directory of a run or a sweep."""

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        make("hydra.run.dir", config.hydra.run.dir)

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        make("hydra.sweep.dir", config.hydra.sweep.dir)


def make(key: str, folder: str) -> None:
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:  # an exit, because Hydra only warns of what a callback raises
        sys.exit(f"{key}={folder} cannot be written to ({error.strerror}); choose another directory with {key}=...")
