"""`run.json`: what was run, with what, and how it ended."""

import errno
import json
import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from copy import deepcopy
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from filelock import BaseFileLock
from hydra.errors import CompactHydraException
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import Logger
from pytorch_lightning.utilities import rank_zero_only
from training_config.errors import ConfigError
from training_config.overrides import task_overrides
from training_config.secret_values import is_secret, redact_text, redact_texts, secret_values
from training_config.walk import walk

from training_runs.checkpoints.last_checkpoint import check_ranks
from training_runs.checkpoints.moved_run import relocate
from training_runs.errors import DiskError
from training_runs.launching import ranks
from training_runs.launching.progress import Progress
from training_runs.loggers import kept_runs
from training_runs.loggers.look import look
from training_runs.records import changes, rerun, resume
from training_runs.records.runs import (
    RECORD,
    RESERVE,
    claim,
    command_line,
    is_trial,
    read_record,
    release,
    reserve,
    shortest,
    write_record,
)
from training_runs.reports.report import RunReport
from training_runs.start.console import say

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Of those that are installed, the version is recorded.
PACKAGES = ("torch", "torchvision", "pytorch-lightning", "torchmetrics", "hydra-core", "omegaconf", "numpy")


class RunRecord(Callback):
    """Keeps `run.json` true while a run lives: a context manager around it and a callback inside its Trainer.

    `state` is running, finished, failed or interrupted; `starts` has an entry for each time that the run was started:
    what is at the top belongs to the first, state and error to the last. `metrics` is flat and at full precision:
    train/* of the last epoch, val/* of the epoch whose checkpoint is the best, test/* of that checkpoint; null where a
    value is no finite number.
    Hyperparameters go to the loggers from here, because only a set-up DataModule knows what data it really has.
    `loggers` has the id of the run on W&B or MLflow by the name in `cfg.logger`: who goes on here does so there, too.

    A run that goes on is touched only when its checkpoint has been loaded: whatever is refused before leaves every
    byte in its directory as it was. To be the first of the callbacks, so that none has written by then.
    """

    def __init__(self, cfg: DictConfig) -> None:
        self.task, self.cfg = cfg, deepcopy(cfg)  # what the job is built from, and what is recorded of it
        self.folder = Path(cfg.output_dir)
        self.begun = False
        self.lock: BaseFileLock | None = None
        self.loggers: list[Logger] = []  # of the Trainer, once it trains
        self.metrics: dict[str, float] = {}
        self.content: dict[str, Any] = {
            "state": "running",
            "command": command_line(),
            "overrides": task_overrides(),
            "seed": cfg.seed,
            "started": now(),
            "git": git_state(),
            "python": sys.version.split()[0],
            "packages": installed_versions(),
            "metrics": self.metrics,
        }
        start = {key: self.content[key] for key in ("command", "overrides", "started", "git")}
        if cfg.resume is not None and not ranks.launched_here():
            former = read_record(self.folder)
            close_last_start(former)
            self.content = former | {"state": "running", "seed": cfg.seed}
        self.content["starts"] = [*self.content.get("starts", []), start]
        self.resume_point = None if cfg.resume is None else resume.checkpoint(self.folder)

    @property
    def best_checkpoint(self) -> Path | None:
        """The best checkpoint's file, or None where none was written: the weights at hand are tested then."""
        name = self.content.get("best_checkpoint")
        return None if name is None else self.folder / name

    def __enter__(self) -> "RunRecord":
        ranks.check_launched(self.cfg)
        if ranks.launched_here():  # by a process that has claimed the directory, and knows the user's own command
            self.content = json.loads(Path(os.environ[ranks.RECORD_FILE]).read_text(encoding="utf-8"))
        elif rank_zero_only.rank == 0:
            self.lock = claim(self.folder)
        self.metrics = self.content["metrics"]
        kept_runs.go_on(self.task, self.content.get("loggers", {}))
        if self.resume_point is None:
            self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self.begun:  # refused
            self.release()
            return
        if error is None:
            state = "finished"
            if self.cfg.rerun is not None:
                self.content["rerun"] = rerun.compare(Path(self.cfg.rerun), self.content)
        elif isinstance(error, (KeyboardInterrupt, SystemExit)):  # Lightning turns the one into the other
            state = "interrupted"
        else:
            state = "failed"
        error = lost_disk(error, self.folder)
        told = None if error is None else redact_text(f"{type(error).__name__}: {error}", secret_values(self.cfg))
        try:
            if self.folder.is_dir():
                self.free_reserve()
                self.write()
                settle(self.folder, state, told)
                ends_here = state == "finished" or resume.is_of_debug_item(self.content)
                if not ends_here and not isinstance(error, ConfigError):  # which it would meet again
                    say(resume.way_on(self.folder, state))
        except OSError as unwritten:
            error = lost_disk(error if isinstance(error, CompactHydraException) else unwritten, self.folder)
        finally:
            self.release()
        if isinstance(error, DiskError):
            raise error

    def begin(self) -> None:
        """From here on the run is what this start makes of it."""
        self.begun = True
        if rank_zero_only.rank == 0 and (self.cfg.resume is not None or self.cfg.rerun is not None):
            resume.save_config(self.cfg)  # not what Hydra has composed
        self.write()
        if rank_zero_only.rank == 0:
            for draft in self.folder.glob(f".{RECORD}.*"):  # of a process that was killed amid a write
                draft.unlink(missing_ok=True)
            reserve(self.folder)

    @rank_zero_only
    def free_reserve(self) -> None:
        (self.folder / RESERVE).unlink(missing_ok=True)

    def is_written(self) -> bool:
        """Whether this start is on record, through this process or one that it has started."""
        starts = read_record(self.folder).get("starts", [{}])
        return starts[-1].get("started") == self.content["starts"][-1]["started"]

    def release(self) -> None:
        if self.lock is not None:
            release(self.folder, self.lock)

    def pointers(self, evaluate: str | None = None) -> dict[str, str]:
        """Return where the run lies, where to go from here, and what a rerun came to.

        A trial, such as of a check, is removed when it ends: there is nothing to go to.

        Args:
            evaluate: a command that evaluates a run, up to the run's directory.
        """
        if is_trial(self.folder):
            return {}
        run = shortest(self.folder)
        pointers = {"run": str(run)}
        if RunReport.unwritten is not None:  # it is written when the job has ended
            pointers["report"] = f"{run}/report.html"
        if self.loggers and (shown := look(self.loggers, run)) is not None:
            pointers["look"] = shown
        if evaluate is not None and self.best_checkpoint is not None:
            pointers["evaluate"] = f"{evaluate}{run}"
        return pointers | (rerun.describe(self.content["rerun"]) if "rerun" in self.content else {})

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if ranks.launched_here() and not any(isinstance(callback, Progress) for callback in trainer.callbacks):
            trainer.callbacks.append(Progress(Path(os.environ[ranks.FAILURE_FILE]).parent))
        if not self.begun:
            resume.check_data(self.content.get("data"), getattr(trainer.datamodule, "source", None))
            resume.check_weights(pl_module, self.resume_point)

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        if not self.begun:
            changes.check_judges(trainer.checkpoint_callbacks, checkpoint)
        relocate(trainer.checkpoint_callbacks, checkpoint)
        if not self.begun:
            check_ranks(trainer, checkpoint)
            self.begin()
            if trainer.strategy.restore_checkpoint_after_setup:  # FSDP for one: on_fit_start has been
                self.introduce(trainer)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.content |= {
            "data": getattr(trainer.datamodule, "source", None),
            "device": str(trainer.strategy.root_device),
            "world_size": trainer.world_size,
            "precision": str(trainer.precision),
            "hardware": hardware(trainer.strategy.root_device),
        }
        if self.begun:
            self.introduce(trainer)

    def introduce(self, trainer: Trainer) -> None:
        """Write down what this start trains on, and give the loggers its hyperparameters."""
        self.write()
        self.loggers = trainer.loggers
        values = hyperparameters(self.cfg) | {"data.source": self.content["data"], "resume": None}
        for logger in trainer.loggers:
            logger.log_hyperparams(values)
        if ids := kept_runs.ids(self.cfg, trainer.loggers):
            self.content["loggers"] = ids
            self.write()  # at once: it may be killed

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.begun:  # a checkpoint without callbacks
            self.begin()
            self.introduce(trainer)
        self.content["starts"][-1] |= {"epoch": trainer.current_epoch, "step": trainer.global_step}
        self.write()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint["metrics"] = numbers(trainer, "val")

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.metrics |= numbers(trainer, "train", "val")
        best = getattr(trainer.checkpoint_callback, "best_model_path", "")
        if best:
            # Without them where save_weights_only leaves out what callbacks add.
            at_best = torch.load(best, map_location="cpu", weights_only=True, mmap=True).get("metrics", {})
            self.metrics |= at_best
            for logger in trainer.loggers:
                best_metrics = {f"best/{name.partition('/')[2]}": value for name, value in at_best.items()}
                logger.log_metrics(best_metrics, step=trainer.global_step)
            inside = Path(best).is_relative_to(self.folder)
            self.content["best_checkpoint"] = Path(best).relative_to(self.folder).as_posix() if inside else best
        self.content |= {"epochs": trainer.current_epoch, "steps": trainer.global_step}
        self.write()

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.metrics |= numbers(trainer, "test")

    @rank_zero_only
    def write(self) -> None:
        write_record(self.folder, self.content)


@rank_zero_only
def settle(folder: Path, state: str, error: str | None = None) -> None:
    """Record how the run in `folder` ended, beside what its ranks have recorded."""
    record = read_record(folder)
    ended = datetime.now(UTC)
    last = record["starts"][-1]
    last["seconds"] = round((ended - datetime.fromisoformat(last["started"])).total_seconds(), 3)
    last |= {"state": state, "ended": ended.isoformat(timespec="milliseconds")}
    record |= {key: last[key] for key in ("state", "ended")}
    record["seconds"] = round(sum(start.get("seconds", 0) for start in record["starts"]), 3)
    record.pop("error", None)
    if state == "failed":
        last["error"] = record["error"] = error
    write_record(folder, record)


def lost_disk(error: BaseException | None, run: Path) -> BaseException | None:
    """Return the error that says so where `error` comes of a full disk or of a run's directory, which may be gone."""
    if not run.is_dir():
        told = DiskError(f"{run} is gone: removed or moved while the run wrote there; resume=<where it is> goes on")
    elif isinstance(error, OSError) and (error.errno in FULL or Path(str(error.filename)).is_relative_to(run)):
        where = error.filename or run  # it may say no more than its number
        told = DiskError(f"{where} cannot be written: {error.strerror}; the run goes on when it can be")
    else:
        return error
    told.__cause__ = error
    return told


def installed_versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def close_last_start(record: dict[str, Any]) -> None:
    """Say of a start that never came to its end that it was killed."""
    if "starts" in record:  # not where it was refused before it began
        record["starts"][-1].setdefault("state", "killed")


def numbers(trainer: Trainer, *splits: str) -> dict[str, float]:
    """Return the epoch metrics of `splits` logged so far; `_step` is Lightning's mark of a value of one step."""
    return {
        name: float(value)
        for name, value in trainer.callback_metrics.items()
        if name.partition("/")[0] in splits and not name.endswith("_step")
    }


def hyperparameters(cfg: DictConfig) -> dict[str, Any]:
    """Return every value of `cfg` under its dotted key, each once: what is another key's value or group is left out.

    So is every path in the run's own directory: it differs between any two runs and says nothing about them. Stars
    take a secret's place, also where an interpolation has brought it under another name.
    """
    values, output_dir = {}, str(cfg.output_dir)
    for full_key, parent, key in walk(cfg):
        value = parent[key]
        if is_other_key(parent, key) or OmegaConf.is_config(value) or str(value).startswith(output_dir):
            continue
        values[full_key] = "***" if is_secret(full_key, value) else value
    return redact_texts(values, secret_values(cfg))


def is_other_key(parent: Any, key: Any) -> bool:
    """Whether a value is `${another.key}` and nothing else."""
    node = parent._get_node(key)
    return OmegaConf.is_interpolation(parent, key) and re.fullmatch(r"\$\{[\w.]+\}", str(node._value())) is not None


def git_state() -> dict[str, Any] | None:
    """Return the commit of the working directory and whether it has uncommitted changes, or None outside git."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        status = subprocess.run(["git", "status", "--porcelain"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit.stdout.strip(), "dirty": bool(status.stdout.strip())}


def hardware(device: torch.device) -> dict[str, Any]:
    """Return what decides which kernels run: sums over other vector widths or threads round otherwise."""
    return {
        "machine": platform.machine(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
    }


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
