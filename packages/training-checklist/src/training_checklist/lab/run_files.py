"""What a run has written, and where."""

import ast
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from training_config.targets import locate
from training_config.walk import value_of, walk

from training_checklist.diagnosis.config_place import place_of
from training_checklist.engines.inside import asked_for
from training_checklist.engines.source_trees import source_tree
from training_checklist.experiments.paths.event_file import scalars
from training_checklist.experiments.paths.written_files import Recording
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.code_reads import sources
from training_checklist.lab.shared import Subject, once
from training_checklist.lightning import (
    Callback,
    CSVLogger,
    LightningModule,
    ModelCheckpoint,
    TensorBoardLogger,
    Trainer,
)
from training_checklist.starting.placement import Asked

OUTPUT_DIR = "${hydra:runtime.output_dir}"
VERSION = re.compile(r"\bversion_[0-9]+\b")  # as Lightning's loggers count them up, so that none is written over
EVENTS = "events.out.tfevents.*"
UUID = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}(?![0-9a-f])")  # drawn anew each time
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class RecordFile:
    """A file that Hydra writes about the run: its config, its log.

    Args:
        path: from the working directory, None where the config asks for none.
        exists: whether it was there, until the project's own code has removed it.
        inside: whether it lies in the run's directory, or in another folder of this run alone.
        place: the key that decides.
        fix: an override that puts it there.
    """

    name: str
    path: str | None
    exists: bool
    inside: bool
    place: Place
    fix: str


@dataclass(frozen=True)
class LoggedValues:
    """What has reached the files of one logger.

    Args:
        file: "the event file", "metrics.csv".
        folder: from the working directory.
        count: names of values in it, None where there is no file.
        asked: whether the project has asked for the logger, which may also be the Trainer's default.
        left: whether no logger of the Trainer has written it.
    """

    file: str
    folder: str
    count: int | None
    place: Place = NOWHERE
    asked: bool = True
    left: bool = False


class RunFiles(Subject):
    """A job, and what it has written when it is over.

    Attributes:
        run: the run's directory.
        held: results that the job found in its directory.
        callbacks: of the training.
        undirected: checkpoint callbacks without a folder of their own.
        resumed_from: where fit looks for the last checkpoint, the one that it finds, and the line that calls it.
        tested: metric by which checkpoints are chosen, whether the network is tested as the last step leaves it, and
            the line that tests it.
    """

    trainer: Trainer
    config: DictConfig
    run: Path
    recording: Recording
    held: list[str]
    callbacks: list[Callback]
    undirected: list[ModelCheckpoint]
    resumed_from: tuple[Path, str | None, Place]
    tested: tuple[str, bool, Place]

    @property
    def here(self) -> Path:
        return Path(self.config.hydra.runtime.cwd).resolve()

    def has_written(self, path: Path) -> bool:
        return path.exists() or self.recording.has_removed(path)

    def place(self, key: str) -> Place:
        return place_of(self.config, key) or Place(key=key)

    def short(self, path: Path) -> str:
        """Return a path from the working directory, at most two levels above it."""
        relative = os.path.relpath(path, self.here)
        return path.as_posix() if relative.startswith(os.path.join("..", "..", "..")) else Path(relative).as_posix()

    def part_key(self, part: Any) -> str:
        """Return the config key that a callback or logger was built from, or "".

        Where all of its class were built by the project's code, it is the config's only if it has all of its values.
        """
        found, name = [], type(part).__name__
        lines = self.recording.built.get(name)
        for full_key, node, key in walk(job(self)):
            target = value_of(node, key) if key == "_target_" else None
            try:
                same = isinstance(target, str) and locate(target) is type(part)
            except ImportError:
                same = False
            if same:
                known = [each for each in map(str, node) if hasattr(part, each)]
                alike = sum(value_of(node, each) == getattr(part, each) for each in known)
                is_it = alike == len(known) if lines and all(lines) else alike > 0 or not self.built(name)
                found.append((alike, is_it, full_key.removesuffix("._target_")))
        _, is_it, key = max(found, default=(0, False, ""))
        return key if is_it else ""

    def logger_place(self, logger: Any) -> Place:
        key = self.part_key(logger)
        if key:
            return self.place(key)
        file, _, number = self.built(type(logger).__name__).rpartition(":")
        return Place(file=file, line=int(number)) if number else Place(note=type(logger).__name__)

    def built(self, name: str) -> str:
        """Return "file:line" where the code of this run has built one of a class, or ""."""
        lines = self.recording.built.get(name)
        if lines is not None:
            file, _, number = next(filter(None, lines), "").rpartition(":")
            return f"{self.short(Path(file))}:{number}" if file else ""
        return self.line_of(lambda node: isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == name)

    def line_of(self, wanted: Callable[[ast.AST], bool]) -> str:
        """Return "file:line" of the first part of the code of this run that is wanted, or ""."""
        for path, tree in parsed(self):
            for node in ast.walk(tree):
                if wanted(node):
                    return f"{self.short(path)}:{node.lineno}"
        return ""


@once
def job(files: RunFiles) -> DictConfig:
    """Return the config without Hydra's own part."""
    config = files.config.copy()
    with read_write(config), open_dict(config):
        del config["hydra"]
    return config


@once
def parsed(files: RunFiles) -> list[tuple[Path, ast.AST]]:
    """Return those of the project's own source files that this run has imported: others are of another program."""
    checks = Path(__file__).parents[1]
    imported = {os.path.realpath(getattr(module, "__file__", None) or "") for module in [*sys.modules.values()]}
    paths = (path for path in sources(files.here) or () if checks not in path.parents and str(path) in imported)
    return [(path, source_tree(str(path))) for path in sorted(paths)]


@once
def records(files: RunFiles) -> list[RecordFile]:
    """Return what Hydra has written about the run, or was to write."""

    def record(name: str, path: Path, key: str) -> RecordFile:
        place, fix = asked_for(path), f"{key}={OUTPUT_DIR}/{path.name}"
        inside = place.is_relative_to(files.run) or is_of_one_run(files, place)
        return RecordFile(name, files.short(place), files.has_written(path), inside, Place(key=key), fix)

    hydra, found = files.config.hydra, []
    if hydra.output_subdir is not None:
        found.append(record(".hydra", files.run / hydra.output_subdir / "config.yaml", "hydra.output_subdir"))
    elif "RANK" not in os.environ and not any(map(partial(is_of_config, files), own_configs(files))):
        place = Place(key="hydra.output_subdir", value="null")
        found.append(RecordFile(".hydra", None, False, False, place, "hydra.output_subdir=.hydra"))
    logging = OmegaConf.to_container(hydra.job_logging, resolve=True) or {}
    for name, handler in (logging.get("handlers") or {}).items():
        file = (handler or {}).get("filename")
        if file is None or handler.get("delay") or name not in ((logging.get("root") or {}).get("handlers") or []):
            continue
        path = Path(os.path.realpath(files.here / file))
        found.append(record(path.name, path, f"hydra.job_logging.handlers.{name}.filename"))
    return found


def own_configs(files: RunFiles) -> Iterator[Path]:
    """Yield files of YAML in the run's directory, or in a folder of this run's that the code makes elsewhere."""
    yield from files.run.rglob("*.y*ml")
    opened = (path for path in files.recording.opened if path.suffix in (".yaml", ".yml"))
    yield from (path for path in opened if is_of_one_run(files, asked_for(path)))


def is_of_config(files: RunFiles, path: Path) -> bool:
    """Whether the code itself has saved the whole config in a file."""
    try:
        saved = OmegaConf.load(path)
    except Exception:  # of any kind: it may be anything
        return False
    return OmegaConf.is_dict(saved) and {*job(files)} <= {*saved}


@once
def checkpoints(files: RunFiles) -> list[ModelCheckpoint]:
    """Return the checkpoint callbacks whose files can be told: Lightning's own, and none where there are others."""
    callbacks = [each for each in files.callbacks if isinstance(each, ModelCheckpoint)]
    is_known = not files.trainer.fast_dev_run and all(type(each) is ModelCheckpoint for each in callbacks)
    return callbacks if is_known else []


def is_of_one_run(files: RunFiles, path: Path) -> bool:
    """Whether a path has the id of the run in it, or its time: of its command, as keys do, or of now, as code asks."""
    name = files.short(path)
    services = [each for each in files.trainer.loggers if not isinstance(each, (CSVLogger, TensorBoardLogger))]
    # Which they draw anew; W&B writes the time before them.
    ids = tuple(f"{mark}{each.version}" for each in services for mark in "-_")
    if any(f"-{part}".endswith(ids) for part in Path(name).parts):
        return True
    if Asked.current is not None and "${" in Path(Asked.current.raw).name and Asked.current.folder.name in path.parts:
        return True  # as much as of the run's directory itself
    if UUID.search(name):  # of a logger that another Trainer of the run has, say
        return True
    now = {} if Asked.current is None else Asked.current.now
    if any("%M" in pattern and text in name for pattern, text in now.items()):
        return True
    elapsed = datetime.now() - files.recording.began
    minutes = [files.recording.began + timedelta(minutes=number) for number in range(elapsed // MINUTE + 2)]
    stamps = [(f"{each:%m%d}", f"{each:%d%m}", f"{each:%H%M}") for each in minutes]
    parts = [re.sub(r"\D", "", part) for part in Path(name).parts]
    return any((day in part or turned in part) and minute in part for part in parts for day, turned, minute in stamps)


@once
def logged(files: RunFiles) -> list[LoggedValues]:
    """Return what has reached the files of loggers, and event files that no logger has written."""
    found, known = [], []
    for logger in files.trainer.loggers:
        if not isinstance(logger, (CSVLogger, TensorBoardLogger)):
            continue
        folder, place = Path(logger.log_dir), files.logger_place(logger)
        if files.recording.has_removed(folder):
            continue
        if isinstance(logger, CSVLogger):
            name, path = "metrics.csv", folder / "metrics.csv"
            count = max(0, len(path.read_text(encoding="utf-8").splitlines()) - 1) if path.is_file() else None
        else:
            known.append(folder.resolve())
            # Histograms and single runs of add_scalars lie in folders below.
            name, paths = "the event file", [*folder.rglob(EVENTS)]
            count = len({tag for path in paths for tag in scalars(path)} - {"epoch"}) if paths else None
        found.append(LoggedValues(name, files.short(folder), count, place, bool(place.key or place.file)))
    for folder in sorted({path.parent for path in files.run.rglob(EVENTS)}):
        if not any(folder.is_relative_to(other) for other in known):
            tags, short = {tag for path in folder.glob(EVENTS) for tag in scalars(path)}, files.short(folder)
            found.append(LoggedValues("the event file", short, len(tags), Place(file=short), left=True))
    return found


def versions(module: LightningModule) -> list[int]:
    """Return how often each weight has been written to, as torch counts it."""
    return [weight._version for weight in module.parameters()]
