"""Runs on disk: found by name, read from their own directory."""

import json
import math
import os
import re
import shlex
import socket
import sys
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, ListConfig, OmegaConf
from training_config.errors import ConfigError
from training_config.secret_values import redact_override
from training_config.yaml_files import check_size

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from torch.nn import Module

Container = TypeVar("Container", DictConfig, ListConfig)

RECORD = "run.json"
LOCK, HOLDER, RESERVE = ".lock", ".lock.holder", ".reserve"
RESERVED = 64 * 1024  # bytes: a record has some 3 KiB for each time that its run was started


def find_run(name: str | Path, key: str = "run") -> Path:
    """Return the directory of a run: `name` itself, or for `last` the newest here of training that has a checkpoint.

    Raises:
        ConfigError: there is no such run; the message names `key`.
    """
    if name is None:
        raise ConfigError("run=null names no run; try run=last, or run=<directory>")
    if str(name) != "last":
        folder = Path(str(name))
        if not (folder / RECORD).is_file():
            raise ConfigError(f"{key}={name} is not the directory of a run: it has no {RECORD}; try {key}=last")
        return folder
    found = None
    for written, run in sorted(((path / RECORD).stat().st_mtime, path) for path in recorded_runs())[::-1]:
        if found is not None and written < found[0]:  # a record is written after its run has started
            break
        # A run with debug items is a few steps long.
        if (run / "debug").is_dir() or not any(run.glob("checkpoints/*.ckpt")):
            continue
        when = last_started(run)
        if when is not None and (found is None or when > found[0]):
            found = when, run
    if found is None:
        raise ConfigError(
            f"{key}=last: no run in outputs/ or multirun/ has a checkpoint yet; start one with python train.py"
        )
    return found[1]


def recorded_runs() -> Iterator[Path]:
    """Yield the directories below outputs/ and multirun/ that hold a record, but for those inside of such a one."""
    for root in ("outputs", "multirun"):
        for folder, inside, files in os.walk(root):
            if RECORD in files:
                inside.clear()
                yield Path(folder)
            inside[:] = [name for name in inside if name != "debug"]


def last_started(run: Path) -> float | None:
    """Return when a run was last started, in seconds since 1970; None, and a word on it, if its record does not say."""
    try:
        record = read_record(run)
        return datetime.fromisoformat(record.get("starts", [record])[-1]["started"]).timestamp()
    except ConfigError as error:
        print(f"{str(error).partition(';')[0]}: passed over", file=sys.stderr)
    except (KeyError, TypeError, ValueError):  # a job that was refused never started
        pass
    return None


def holds_run(folder: Path) -> bool:
    """Whether a run that began anew in this directory would overwrite the checkpoints of another."""
    return (folder / RECORD).is_file() and any(folder.glob("checkpoints/*.ckpt"))


def is_trial(run: Path) -> bool:
    """Whether a directory is removed when its run ends: a hidden one, or a debug item's own, `debug/.paths-1/run`."""
    above = run.parent
    return run.name.startswith(".") or (above.name.startswith(".") and above.parent.name == "debug")


def find_checkpoint(run: Path, name: str) -> Path:
    """Return the checkpoint called `best` or `last` of a run, or the file that `name` is the path of.

    Raises:
        ConfigError: there is no such file; the message lists those that are there.
    """
    if name is None:
        raise ConfigError("ckpt=null names no checkpoint; use ckpt=best, ckpt=last, or ckpt=<file>")
    if name == "best":
        path = run / read_record(run).get("best_checkpoint", "checkpoints/best.ckpt")
    elif name == "last":
        path = run / "checkpoints" / "last.ckpt"
    else:
        path = Path(str(name))
    if not path.is_file():
        there = ", ".join(sorted(file.name for file in run.glob("checkpoints/*.ckpt"))) or "none"
        raise ConfigError(f"ckpt={name}: there is no file {path}; {run}/checkpoints has {there}")
    return path


def claim(run: Path) -> "BaseFileLock":
    """Return a lock on the run's directory, held until `release` or until this process ends, whatever ends it.

    Raises:
        ConfigError: another process holds it.
    """
    from filelock import FileLock, Timeout  # not for those who only look for a run

    lock = FileLock(run / LOCK, blocking=False)
    try:
        lock.acquire()
    except Timeout as error:
        holder = (run / HOLDER).read_text(encoding="utf-8") if (run / HOLDER).is_file() else "another process"
        raise ConfigError(f"{run} is still running ({holder}); wait for its end, or stop it first") from error
    except (OSError, NotImplementedError) as error:  # of a network's file system, which a run may lie on all the same
        print(f"{run} cannot be locked ({error}): start no second process there", file=sys.stderr)
    # A file of its own: Windows lets nobody read one that is locked.
    with suppress(OSError):  # it is for people
        (run / HOLDER).write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
    return lock


def release(run: Path, lock: "BaseFileLock") -> None:
    """Give up what `claim` returned, and what was reserved."""
    for name in (RESERVE, HOLDER, LOCK):  # while it is held: later, it might be another's already
        with suppress(OSError):  # Windows removes no open file, and a disk may have become read-only
            (run / name).unlink()
    lock.release()


def is_alive(run: Path) -> bool:
    """Whether a process holds the run's directory."""
    if not (run / LOCK).is_file():
        return False
    try:
        release(run, claim(run))
    except ConfigError:
        return True
    return False


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return a checkpoint on the CPU. Nothing in the file is run: it may hold tensors and plain values only.

    Raises:
        ConfigError: the file is damaged, of another kind, or holds objects, which could run code.
    """
    import torch  # not for those who only look for a run

    if not path.is_file():  # to open a pipe would wait for whoever writes to it
        raise ConfigError(f"ckpt={path} is refused: it is no file; use ckpt=best or ckpt=last of a run")
    try:
        check_whole(path)
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise ConfigError(f"ckpt={path} cannot be read ({error.strerror}); use ckpt=best or ckpt=last") from error
    except Exception as error:  # of many kinds: the file may hold anything
        names = re.search(r"GLOBAL (\S+)", str(error))
        reason = f"to load {names[1]} could run code" if names else "it is damaged or of another kind"
        raise ConfigError(f"ckpt={path} is refused: {reason}; use ckpt=best or ckpt=last of a run") from error
    weights = checkpoint.get("state_dict") if isinstance(checkpoint, dict) else None
    if not isinstance(weights, dict) or not all(map(torch.is_tensor, without_extra_state(weights).values())):
        raise ConfigError(f"ckpt={path} is refused: it holds no state_dict; use ckpt=best or ckpt=last of a run")
    for name, weight in without_extra_state(weights).items():
        if weight.is_floating_point() and weight.isnan().any():  # infinity stands in masks
            raise ConfigError(f"ckpt={path} is refused: {name} in it is NaN: training diverged; use one from before")
    return checkpoint


def check_whole(path: Path) -> None:
    """Compare every part of a checkpoint with its checksum: torch.save writes one for each, torch.load looks at none.

    Raises:
        RuntimeError: naming the part that is not what has been written.
    """
    if zipfile.is_zipfile(path):  # what is none is of torch before 1.6, or no checkpoint: torch.load says so
        with zipfile.ZipFile(path) as file:
            damaged = file.testzip()
        if damaged is not None:
            raise RuntimeError(f"{damaged} in it is not what has been written")


def load_weights(model: "Module", theirs: dict[str, Any], checkpoint: Path) -> None:
    """Give the model the weights of a checkpoint, its `state_dict`.

    Raises:
        ConfigError: they belong to another architecture; the message names the first that does not fit.
    """
    found = misfit(model.state_dict(), theirs)
    if found is not None:
        name, here, there = found
        raise ConfigError(
            f"ckpt={checkpoint} belongs to another network: {name} is {there} in it and {here} in the run's own; "
            f"use ckpt=best or ckpt=last, or name the checkpoint's run with run=..."
        )
    model.load_state_dict(theirs)


def misfit(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Return the first weight whose shapes differ in two state dicts, with both shapes; None where all fit."""
    ours, theirs = without_extra_state(ours), without_extra_state(theirs)
    for name in dict.fromkeys([*ours, *theirs]):
        here, there = (form(some[name]) if name in some else "not there" for some in (ours, theirs))
        if here != there:
            return name, here, there
    return None


def form(weight: Any) -> str:
    """Return the shape of a weight, and of what it is made where that are no floating-point numbers."""
    return f"{tuple(weight.shape)}" + ("" if weight.is_floating_point() else f" of {weight.dtype}")


def without_extra_state(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state dict without what modules add by `get_extra_state`, of any kind."""
    return {name: value for name, value in weights.items() if not str(name).endswith("_extra_state")}


def read_record(run: Path) -> dict[str, Any]:
    """Return what the run recorded about itself.

    Raises:
        ConfigError: the record is damaged.
    """
    try:
        record = json.loads((run / RECORD).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{run / RECORD} is damaged ({error}); name another run") from error
    except OSError as error:
        raise ConfigError(f"{run / RECORD} cannot be read ({error.strerror}); name another run") from error
    from training_runs.records.content import lacking  # pydantic, which a help text does not need

    wrong = lacking(record)
    if wrong:
        raise ConfigError(f"{run / RECORD} is damaged: it says no {', '.join(wrong)}; name another run")
    return record


def known_record(run: Path) -> dict[str, Any]:
    """Return the record of a run, empty where there is none or it is damaged."""
    with suppress(ConfigError):
        return read_record(run)
    return {}


def write_record(run: Path, record: dict[str, Any]) -> None:
    """Replace the run's record; it is never half written, because other tools read it while the run lives."""
    content = json.dumps(strict(record), indent=2, ensure_ascii=False, allow_nan=False)
    replace_text(run / RECORD, f"{content}\n")


def strict(value: Any) -> Any:
    """Return `value` with None in the place of every number that is not finite: JSON knows neither NaN nor infinity."""
    if isinstance(value, Mapping):
        return {key: strict(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def replace_text(path: Path, text: str) -> None:
    """Write a file so that the former one or the whole new one lies there, on a full disk too."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="")
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        error.filename = str(path)  # not the draft's
        raise


def reserve(run: Path) -> None:
    """Keep as much of the disk as the record of the run's end needs, until `release`."""
    (run / RESERVE).write_bytes(bytes(RESERVED))


def read_config(run: Path) -> DictConfig:
    """Return the config that the run was started with, its `output_dir` where the run lies now.

    Raises:
        ConfigError: it is not there, or damaged.
    """
    cfg = read_yaml(run / ".hydra" / "config.yaml", DictConfig)
    cfg.output_dir = str(run.resolve())
    return cfg


def check_trains(cfg: DictConfig, run: Path) -> None:
    """Refuse to train again what a run's config does not say.

    Raises:
        ConfigError: `cfg`, which `run` has saved, is no config of a training.
    """
    if "trainer" not in cfg:
        raise ConfigError(f"{run / '.hydra' / 'config.yaml'} is damaged: it has no trainer; name another run")


def read_overrides(run: Path) -> list[str]:
    """Return the overrides that a run was given.

    Raises:
        ConfigError: their file is not there, or damaged.
    """
    path = run / ".hydra" / "overrides.yaml"
    overrides = OmegaConf.to_container(read_yaml(path, ListConfig))
    if not all(isinstance(override, str) for override in overrides):
        raise ConfigError(f"{path} is damaged: it holds no overrides; name another run")
    return overrides


def read_yaml(path: Path, kind: type[Container]) -> Container:
    """Return a config file of a run, a mapping or a list.

    Raises:
        ConfigError: it is not there, or damaged.
    """
    try:
        text = path.read_text(encoding="utf-8")
        check_size(text)
        content = OmegaConf.load(StringIO(text))
    except Exception as error:  # of many kinds: the file may hold anything
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()).replace(' in "<file>"', "")
        raise ConfigError(f"{path} cannot be read ({reason}); name another run") from error
    if not isinstance(content, kind) or content._is_none() or (kind is DictConfig and not content):
        expected = "keys and values" if kind is DictConfig else "overrides"
        raise ConfigError(f"{path} is damaged: it holds no {expected}; name another run")
    return content


def shortest(path: Path) -> Path:
    """Return `path` relative to the working directory where it lies below."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def command_line() -> str:
    """Return the command that started this process, without secrets."""
    return shlex.join(["python", *map(redact_override, sys.argv)])


def script() -> str:
    """Return the name of the script whose job this is, for the commands that messages name."""
    return f"{HydraConfig.get().job.name}.py" if HydraConfig.initialized() else "train.py"
