"""Whether everything that a run writes lies in its own directory, and is all there."""

import ast
import atexit
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from inspect import unwrap
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from training_config.provenance import trace_config
from training_config.targets import locate
from training_config.walk import value_of, walk

from training_checklist import session
from training_checklist.diagnosis.config_place import place_of
from training_checklist.engines import loads
from training_checklist.engines.own_code import pass_on, shorten
from training_checklist.engines.places import Places, here_and_outwards
from training_checklist.evidence.run_files import (
    Checkpoints,
    LoggedValues,
    OutsideFiles,
    RecordFile,
    RemovedCheckpoint,
    ResumedFolder,
    RunDirectory,
    Tested,
)
from training_checklist.experiments.config.code_reads import sources
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.paths.event_file import scalars
from training_checklist.experiments.paths.written_files import Recording, Written
from training_checklist.finding import Fix, Place
from training_checklist.lab.stages import Stages
from training_checklist.lightning import (
    Checkpoint,
    CSVLogger,
    LightningModule,
    Logger,
    ModelCheckpoint,
    TensorBoardLogger,
    Trainer,
)
from training_checklist.starting.check import FOLDER
from training_checklist.starting.placement import Asked, raw_directory

OUTPUT_DIR = "${hydra:runtime.output_dir}"
RESULTS = ("*.ckpt", "events.out.tfevents.*", "metrics.csv", "report.json")  # what a job leaves behind
EVENTS = "events.out.tfevents.*"
CONSTANT = re.compile(r"\$\{hydra[.:](job\.name|runtime\.cwd)\}")  # the same in every job


class PathsWatch(Callback):
    """Records what a job writes, from before anything is built until the job is over."""

    recording: ClassVar[Recording | None] = None
    config: ClassVar[DictConfig | None] = None
    found: ClassVar[list[str]] = []  # results that the job finds in its directory

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        run = Path(config.hydra.runtime.output_dir).resolve()
        asked = run if Asked.current is None else Asked.current.folder.resolve()
        PathsWatch.config, PathsWatch.recording = config, None
        PathsWatch.found = sorted(
            path.relative_to(asked).as_posix()
            for pattern in RESULTS
            for path in asked.rglob(pattern)
            if FOLDER not in path.relative_to(asked).parts  # of a check
        )
        recording = Recording(Path(config.hydra.runtime.cwd).resolve(), run)
        recording.start()
        PathsWatch.recording = recording

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        if PathsWatch.recording is not None:
            PathsWatch.recording.stop()
            atexit.register(remove, PathsWatch.recording)  # when all has been judged


def remove(recording: Recording) -> None:
    """Remove what callbacks and loggers have written outside: their project may look there for its own runs."""
    for written in recording.outside([]):
        if written.part is not None and written.is_new:
            with suppress(OSError):
                written.path.unlink()
                for folder in written.path.parents:
                    folder.rmdir()  # until one that holds something


class Paths(Experiment):
    """A short run, after which everything that it has written is looked at."""

    item = "paths"

    def __init__(self) -> None:
        super().__init__()
        self.trainer: Trainer | None = None
        self.undirected: list[ModelCheckpoint] = []
        self.parsed: list[tuple[Path, ast.AST]] | None = None
        self.found: list[str] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage != "fit":
            return
        self.trainer = trainer
        self.test, trainer.test = trainer.test, self._test
        self._look_at_resuming(trainer)
        # Lightning has put them last: they have not yet chosen a folder themselves.
        self.undirected = [
            callback for callback in trainer.callbacks if isinstance(callback, ModelCheckpoint) and not callback.dirpath
        ]

    def _look_at_resuming(self, trainer: Trainer) -> None:
        """See whether `fit` is to go on from the last checkpoint of a directory that is new in every run."""
        asked = next((frame for frame, _ in here_and_outwards() if frame.f_code is unwrap(Trainer.fit).__code__), None)
        callback, config = trainer.checkpoint_callback, PathsWatch.config
        if asked is None or asked.f_locals.get("ckpt_path") != "last" or config is None:
            return
        folder = Path(getattr(callback, "dirpath", None) or trainer.default_root_dir).resolve()
        inside = folder.is_relative_to(Path(config.hydra.runtime.output_dir).resolve())
        directory = raw_directory(config) if Asked.current is None else Asked.current.raw
        new = inside and "${now:" in directory
        self.judge(ResumedFolder(trainer.ckpt_path, new, shorten(folder), Places(trainer.lightning_module).here()))

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.trained, self.versions = pl_module, versions(pl_module)

    def _test(self, model: Any = None, *arguments: Any, **options: Any) -> Any:
        """Look which weights the project tests; `Trainer.test` does what it always does."""
        best = self.trainer.checkpoint_callback
        if isinstance(best, ModelCheckpoint) and best.monitor is not None and best.best_model_path:
            path = arguments[1] if len(arguments) > 1 else options.get("ckpt_path")
            as_trained = model is self.trained and path is None and versions(model) == self.versions
            self.judge(Tested(best.monitor, as_trained, Places(self.trained).here()))
        return pass_on(self.test, model, *arguments, **options)

    def conclude(self, folder: Path) -> None:
        if self.rank != 0:
            return
        if PathsWatch.recording is None or self.trainer is None:
            self.skip("fit was not called" if self.trainer is None else "hydra.callbacks.debug_paths has not run")
            return
        self.config = PathsWatch.config
        self.here, self.run = Path(self.config.hydra.runtime.cwd).resolve(), folder.resolve()
        self.job = self._job()
        self.judge(*self._outside(), *self._records(), *self._checkpoints(), *self._logged(), self._directory())
        # What a script does with a checkpoint when training is over: no other item has it saved and loaded.
        self.ask([session.settings().rules["run/weights-not-loaded"]], Stages(), loaded_weights=loads.seen())
        self.seen = f"{', '.join(self.found) or 'nothing'} in the run's directory"

    def _job(self) -> DictConfig:
        job = self.config.copy()
        with read_write(job), open_dict(job):
            del job["hydra"]
        return job

    def _outside(self) -> Iterator[OutsideFiles]:
        groups: dict[tuple[str, str, str], list[Path]] = {}
        # A path that the config names in full is the project's own run directory too.
        own = [] if Asked.current is None or Asked.current.folder == self.here else [Asked.current.folder.resolve()]
        for written in PathsWatch.recording.outside([*self._data(), *own]):
            groups.setdefault(self._writer(written), []).append(written.path)
        for (writer, key, line), paths in groups.items():
            file, _, number = line.rpartition(":")
            place = self._place(key) if key else Place()
            place = place.beside(file=file, line=int(number)) if line else place
            names = [self._short(path) for path in sorted(paths)]
            place = place if key or line else Place(file=names[0])
            yield OutsideFiles(writer, names, place, self._fix_outside(key, line, paths[0]))
        yield OutsideFiles()

    def _writer(self, written: Written) -> tuple[str, str, str]:
        """Return who has written a file, the config key that sends it there or "", and the line of code or ""."""
        part_key = self._part_key(written.part) if written.part is not None else ""
        key = self._directing_key(written.path, part_key)
        line = written.line and self._short_line(written.line)
        if written.part is not None:
            name = type(written.part).__name__
            if part_key:
                return f"{part_key} ({name})", key or part_key, ""
            if isinstance(written.part, Checkpoint) and written.part in self.undirected:
                own = "" if self._built("ModelCheckpoint") else "the Trainer's own "
                return f"{own}{name} without a dirpath", key, ""
            return f"{name}, built in code,", key, self._built(name) or line
        if not line:
            line = self._named(written.path.name)
        return ("the code" if line else "something"), key, line

    def _part_key(self, part: Any) -> str:
        """Return the config key that a callback or logger was built from, or ""."""
        found = []
        for full_key, node, key in walk(self.job):
            target = value_of(node, key) if key == "_target_" else None
            try:
                same = isinstance(target, str) and locate(target) is type(part)
            except ImportError:
                same = False
            if same:
                values = [name for name in node if value_of(node, name) == getattr(part, str(name), None)]
                found.append((len(values), full_key.removesuffix("._target_")))
        return max(found)[1] if found else ""

    def _directing_key(self, path: Path, below: str) -> str:
        """Return the key whose own value is the file or its folder, first below a part; or ""."""
        found = []
        for full_key, node, key in walk(self.job):
            value = value_of(node, key)
            if not isinstance(value, str) or not value or len(value) > 1000:
                continue
            named = Path(os.path.realpath(self.here / value))
            if path.is_relative_to(named) and not self.here.is_relative_to(named):
                literal = not OmegaConf.is_interpolation(node, key)
                found.append((literal, bool(below) and full_key.startswith(f"{below}."), len(named.parts), full_key))
        return max(found)[3] if found else ""

    def _fix_outside(self, key: str, line: str, path: Path) -> Fix:
        last = key.rpartition(".")[2]
        folder = "/checkpoints" if last == "dirpath" else f"/{path.name}" if Path(last).suffix else ""
        if key and isinstance(OmegaConf.select(self.job, key, default=None), str):
            return Fix(overrides=(f"{key}={OUTPUT_DIR}{folder}",))
        if key and last != key:
            return Fix(overrides=(f"+{key}.{'dirpath' if path.suffix == '.ckpt' else 'save_dir'}={OUTPUT_DIR}",))
        if line:
            return Fix(f"in {line}: Path(HydraConfig.get().runtime.output_dir) / {path.name!r}")
        mark = "" if "default_root_dir" in (self.job.get("trainer") or {}) else "+"
        return Fix(overrides=(f"{mark}trainer.default_root_dir={OUTPUT_DIR}",))

    def _records(self) -> Iterator[RecordFile]:
        hydra = self.config.hydra
        if hydra.output_subdir is not None:
            yield self._record(self.run / hydra.output_subdir / "config.yaml", "hydra.output_subdir", ".hydra")
        elif "RANK" not in os.environ:
            yield RecordFile(None, False, False, Place(key="hydra.output_subdir", value="null"), ".hydra")
        logging = OmegaConf.to_container(hydra.job_logging, resolve=True) or {}
        for name, handler in (logging.get("handlers") or {}).items():
            file = (handler or {}).get("filename")
            if file is None or handler.get("delay") or name not in ((logging.get("root") or {}).get("handlers") or []):
                continue
            path = Path(os.path.realpath(self.here / file))
            yield self._record(path, f"hydra.job_logging.handlers.{name}.filename", path.name)

    def _record(self, path: Path, key: str, name: str) -> RecordFile:
        exists, inside = path.is_file(), path.is_relative_to(self.run)
        self.found += [name] if exists and inside else []
        return RecordFile(self._short(path), exists, inside, Place(key=key), f"{OUTPUT_DIR}/{path.name}")

    def _checkpoints(self) -> Iterator[Checkpoints | RemovedCheckpoint]:
        trainer = self.trainer
        callbacks = [callback for callback in trainer.callbacks if isinstance(callback, ModelCheckpoint)]
        if trainer.fast_dev_run or not callbacks or any(type(c) is not ModelCheckpoint for c in callbacks):
            return
        written = sorted(self.run.rglob("*.ckpt"))
        if written:
            self.found.append(f"{len(written)} checkpoint{'s' * (len(written) > 1)}")
        places = ", ".join(sorted({self._short(path.parent) for path in written}))
        key = self._removed_checkpoint()
        own = all(callback in self.undirected and not self._part_key(callback) for callback in callbacks)
        yield RemovedCheckpoint(key if own else "", places, self._place(key) if key else Place())
        for callback in callbacks:
            paths = [path for path in (callback.best_model_path, callback.last_model_path) if path]
            empty = [path for path in paths if Path(path).is_file() and not Path(path).stat().st_size]
            due = (
                callback.save_top_k != 0
                and callback._every_n_epochs == 1
                and not callback._every_n_train_steps
                and callback._train_time_interval is None
                and trainer.current_epoch > 0
            )
            key = self._part_key(callback)
            yield Checkpoints(
                due,
                [self._short(Path(path)) for path in paths if Path(path).exists()],
                [self._short(Path(path)) for path in empty],
                self._place(key) if key else Place(note="ModelCheckpoint"),
            )

    def _removed_checkpoint(self) -> str:
        """Return the key of a ModelCheckpoint that the config's files have and the job's config has not, or ""."""
        try:
            files = trace_config(self.config).files
        except Exception:  # Hydra's internals, which a later version may change
            return ""
        for file in files:
            for full_key, node, key in walk(OmegaConf.create(file.content)):
                target = value_of(node, key) if key == "_target_" else None
                if isinstance(target, str) and target.endswith(".ModelCheckpoint"):
                    owner = ".".join(part for part in (file.package, full_key.removesuffix("._target_")) if part)
                    if OmegaConf.select(self.job, owner, default=None) is None:
                        return owner
        return ""

    def _logged(self) -> Iterator[LoggedValues]:
        anything = bool(self.trainer.logged_metrics or self.trainer.callback_metrics)
        boards = [logger for logger in self.trainer.loggers if isinstance(logger, TensorBoardLogger)]
        for logger in self.trainer.loggers:
            if isinstance(logger, CSVLogger):
                path = Path(logger.log_dir) / "metrics.csv"
                lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
                self.found += ["metrics.csv"] if len(lines) > 1 else []
                yield self._values("metrics.csv", logger, max(0, len(lines) - 1) if path.is_file() else None, anything)
        for logger in boards:
            # Histograms and single runs of add_scalars lie in folders below.
            paths = list(Path(logger.log_dir).rglob(EVENTS))
            tags = {tag for path in paths for tag in scalars(path)} - {"epoch"}
            self.found += [f"events with {len(tags)} scalars"] if tags else []
            yield self._values("the event file", logger, len(tags) if paths else None, anything)
        known = [Path(logger.log_dir).resolve() for logger in boards]
        for folder in sorted({path.parent for path in self.run.rglob(EVENTS)}):
            if not any(folder.is_relative_to(other) for other in known):
                tags = {tag for path in folder.glob(EVENTS) for tag in scalars(path)}
                short = self._short(folder)
                yield LoggedValues("the event file", short, len(tags), anything, Place(file=short))

    def _values(self, file: str, logger: Logger, count: int | None, anything: bool) -> LoggedValues:
        place = self._logger_place(logger)
        asked = bool(place.key or place.file)
        return LoggedValues(file, self._short(Path(logger.log_dir)), count, anything, place, asked)

    def _logger_place(self, logger: Logger) -> Place:
        key = self._part_key(logger)
        if key:
            return self._place(key)
        file, _, number = self._built(type(logger).__name__).rpartition(":")
        return Place(file=file, line=int(number)) if number else Place(note=type(logger).__name__)

    def _directory(self) -> RunDirectory:
        asked = Asked.current or Asked.of(self.config)
        key = "hydra.sweep.subdir" if asked.in_sweep else "hydra.run.dir"
        resumed = self.trainer.ckpt_path and Path(self.trainer.ckpt_path).resolve().is_relative_to(asked.folder)
        return RunDirectory(
            self._short(asked.folder),
            asked.shared,
            [] if asked.in_sweep or resumed else PathsWatch.found,
            asked.folder.resolve() == self.here,
            # A path from the root on the command line is a scheduler's or a test's, which makes one for each job.
            "${" not in CONSTANT.sub("", asked.raw) and not (asked.typed and Path(asked.raw).is_absolute()),
            asked.typed and not asked.in_sweep,
            Place(key=key, value=asked.raw),
            "${hydra.job.num}" if asked.in_sweep else "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S}",
        )

    def _data(self) -> list[Path]:
        """Return the folders that the DataModule was told of, as far as they are not the project itself."""
        datamodule = self.trainer.datamodule
        values = [*vars(datamodule).values(), *datamodule.hparams.values()] if datamodule is not None else []
        texts = [value for value in values if isinstance(value, (str, Path)) and value]
        named = [Path(os.path.realpath(self.here / text)) for text in texts]
        above = {self.here, *self.here.parents, *self.run.parents}
        return [path for path in named if path.is_dir() and path not in above]

    def _place(self, key: str) -> Place:
        return place_of(self.config, key) or Place(key=key)

    def _built(self, name: str) -> str:
        """Return "file:line" of the first call of a class in the project's code, or ""."""
        for path in self._sources():
            for node in ast.walk(path[1]):
                if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
                    return f"{self._short(path[0])}:{node.lineno}"
        return ""

    def _named(self, name: str) -> str:
        """Return "file:line" of the first text in the project's code that ends in a file's name, or ""."""
        for path in self._sources():
            for node in ast.walk(path[1]):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.endswith(name):
                    return f"{self._short(path[0])}:{node.lineno}"
        return ""

    def _sources(self) -> list[tuple[Path, ast.AST]]:
        if self.parsed is None:
            self.parsed = []
            checks = Path(__file__).parents[2]
            for path in [path for path in sources(self.here) or [] if checks not in path.parents]:
                try:
                    self.parsed.append((path, ast.parse(path.read_text(encoding="utf-8"))))
                except (SyntaxError, ValueError, OSError):
                    continue
        return self.parsed

    def _short_line(self, line: str) -> str:
        file, _, number = line.rpartition(":")
        return f"{self._short(Path(file))}:{number}"

    def _short(self, path: Path) -> str:
        """Return a path from the working directory, at most two levels above it."""
        relative = os.path.relpath(path, self.here)
        return path.as_posix() if relative.startswith(os.path.join("..", "..", "..")) else Path(relative).as_posix()


def versions(module: LightningModule) -> list[int]:
    """Return how often each weight has been written to, as torch counts it."""
    return [weight._version for weight in module.parameters()]
