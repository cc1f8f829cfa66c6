"""Runs on disk: found by name, read from their own directory."""

import json
import os
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..errors import ConfigError

RECORD = "run.json"


def find_run(name: str | Path) -> Path:
    """Return the directory of a run: `name` itself, or for `last` the newest here of training that has a checkpoint.

    Raises:
        ConfigError: there is no such run.
    """
    if str(name) != "last":
        folder = Path(name)
        if not (folder / RECORD).is_file():
            raise ConfigError(f"run={name} is not the directory of a run: it has no {RECORD}; try run=last")
        return folder
    runs = [path.parent for root in ("outputs", "multirun") for path in Path(root).glob(f"**/{RECORD}")]
    # A run with debug items is a few steps long, and a checklist's items are runs inside a run.
    runs = [run for run in runs if "debug" not in run.parts and not (run / "debug").is_dir()]
    runs = [run for run in runs if any(run.glob("checkpoints/*.ckpt"))]
    if not runs:
        raise ConfigError(
            "run=last: no run in outputs/ or multirun/ has a checkpoint yet; start one with python train.py"
        )
    return max(runs, key=lambda run: read_record(run)["started"])


def find_checkpoint(run: Path, name: str) -> Path:
    """Return the checkpoint called `best` or `last` of a run, or the file that `name` is the path of.

    Raises:
        ConfigError: there is no such file; the message lists those that are there.
    """
    if name == "best":
        path = run / read_record(run).get("best_checkpoint", "checkpoints/best.ckpt")
    elif name == "last":
        path = run / "checkpoints" / "last.ckpt"
    else:
        path = Path(name)
    if not path.is_file():
        there = ", ".join(sorted(file.name for file in run.glob("checkpoints/*.ckpt"))) or "none"
        raise ConfigError(f"ckpt={name}: there is no {path}; {run}/checkpoints has {there}")
    return path


def read_record(run: Path) -> dict[str, Any]:
    """Return what the run recorded about itself."""
    return json.loads((run / RECORD).read_text(encoding="utf-8"))


def write_record(run: Path, record: dict[str, Any]) -> None:
    """Replace the run's record; it is never half written, because other tools read it while the run lives."""
    draft = run / f".{RECORD}.{os.getpid()}"
    draft.write_text(json.dumps(record, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(run / RECORD)


def read_config(run: Path) -> DictConfig:
    """Return the config that the run was started with, its `output_dir` where the run lies now."""
    cfg = OmegaConf.load(run / ".hydra" / "config.yaml")
    cfg.output_dir = str(run.resolve())
    return cfg
