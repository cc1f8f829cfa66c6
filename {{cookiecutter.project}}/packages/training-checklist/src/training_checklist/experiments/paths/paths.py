"""Whether everything that a run writes lies in its own directory, and is all there."""

import ast
import os
import re
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from training_config.overrides import key_of
from training_config.provenance import trace_config
from training_config.targets import locate
from training_config.walk import value_of, walk

from training_checklist.command import command
from training_checklist.experiments.config.code_reads import sources
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.paths.event_file import scalars
from training_checklist.experiments.paths.written_files import Recording, Written
from training_checklist.lightning import (
    Checkpoint,
    CSVLogger,
    LightningModule,
    Logger,
    ModelCheckpoint,
    TensorBoardLogger,
    Trainer,
)

OUTPUT_DIR = "${hydra:runtime.output_dir}"
RESULTS = ("*.ckpt", "events.out.tfevents.*", "metrics.csv", "report.json")  # what a job leaves behind
CONSTANT = re.compile(r"\$\{hydra[.:](job\.name|runtime\.cwd)\}")  # the same in every job


class PathsWatch(Callback):
    """Records what a job writes, from before anything is built until the job is over."""

    recording: ClassVar[Recording | None] = None
    config: ClassVar[DictConfig | None] = None
    folders: ClassVar[list[str]] = []  # of the jobs of this process, the present one last
    found: ClassVar[list[str]] = []  # results that the job finds in its directory

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        PathsWatch.folders = []

    def on_run_start(self, config: DictConfig, **kwargs: Any) -> None:
        PathsWatch.folders = []

    def on_job_start(self, config: DictConfig, **kwargs: Any) -> None:
        run = Path(config.hydra.runtime.output_dir).resolve()
        PathsWatch.config, PathsWatch.recording = config, None
        PathsWatch.folders.append(config.hydra.runtime.output_dir)
        PathsWatch.found = sorted(
            path.relative_to(run).as_posix() for pattern in RESULTS for path in run.rglob(pattern)
        )
        recording = Recording(Path(config.hydra.runtime.cwd).resolve(), run)
        recording.start()
        PathsWatch.recording = recording

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        if PathsWatch.recording is not None:
            PathsWatch.recording.stop()


class Paths(Experiment):
    """Fails where a file lies outside the run's directory, outputs are missing or empty, or jobs share a directory."""

    item = "paths"

    def __init__(self) -> None:
        super().__init__()
        self.trainer: Trainer | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage != "fit":
            return
        self.trainer = trainer
        # Lightning has put them last: they have not yet chosen a folder themselves.
        self.undirected = [
            callback for callback in trainer.callbacks if isinstance(callback, ModelCheckpoint) and not callback.dirpath
        ]

    def conclude(self, folder: Path) -> None:
        if self.rank != 0:
            return
        if PathsWatch.recording is None or self.trainer is None:
            self.skip("fit was not called" if self.trainer is None else "hydra.callbacks.debug_paths has not run")
            return
        self.config = PathsWatch.config
        self.here, self.run = Path(self.config.hydra.runtime.cwd).resolve(), folder.resolve()
        self.job = self._job()
        self.found: list[str] = []
        self._judge_outside()
        self._judge_hydra()
        self._judge_checkpoints()
        self._judge_loggers()
        self._judge_sharing()
        self.seen = f"{', '.join(self.found) or 'nothing'} in {self._short(self.run)}"

    def _job(self) -> DictConfig:
        job = self.config.copy()
        with read_write(job), open_dict(job):
            del job["hydra"]
        return job

    def _judge_outside(self) -> None:
        groups: dict[tuple[str, str, str], list[Path]] = {}
        for written in PathsWatch.recording.outside(self._data()):
            groups.setdefault(self._writer(written), []).append(written.path)
        for (writer, key, line), paths in groups.items():
            names = [self._short(path) for path in sorted(paths)]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            self.fail(
                f"{writer} writes outside the run's directory: {', '.join(names[:3])}{more}",
                "; ".join(part for part in (self._place(key) if key else "", line) if part) or names[0],
                "the files of all runs mix there, the next run overwrites them, and none can be told from another",
                self._fix_outside(key, line, paths[0]),
            )

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
                own = "" if self._names("ModelCheckpoint") else "the Trainer's own "
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

    def _fix_outside(self, key: str, line: str, path: Path) -> str:
        last = key.rpartition(".")[2]
        folder = "/checkpoints" if last == "dirpath" else f"/{path.name}" if Path(last).suffix else ""
        if key and isinstance(OmegaConf.select(self.job, key, default=None), str):
            return command(self.config, f"{key}={OUTPUT_DIR}{folder}")
        if key and last != key:
            return command(self.config, f"+{key}.{'dirpath' if path.suffix == '.ckpt' else 'save_dir'}={OUTPUT_DIR}")
        if line:
            return f"in {line}: Path(HydraConfig.get().runtime.output_dir) / {path.name!r}"
        mark = "" if "default_root_dir" in (self.job.get("trainer") or {}) else "+"
        return command(self.config, f"{mark}trainer.default_root_dir={OUTPUT_DIR}")

    def _judge_hydra(self) -> None:
        hydra = self.config.hydra
        if hydra.output_subdir is not None:
            self._expect(self.run / hydra.output_subdir / "config.yaml", "hydra.output_subdir", ".hydra")
        elif "RANK" not in os.environ:
            self.warn(
                "there is no .hydra with the run's config",
                "hydra.output_subdir is null",
                "nobody can tell later what was run",
                command(self.config, "hydra.output_subdir=.hydra"),
            )
        logging = OmegaConf.to_container(hydra.job_logging, resolve=True) or {}
        for name, handler in (logging.get("handlers") or {}).items():
            file = (handler or {}).get("filename")
            if file is None or handler.get("delay") or name not in ((logging.get("root") or {}).get("handlers") or []):
                continue
            key, path = f"hydra.job_logging.handlers.{name}.filename", Path(os.path.realpath(self.here / file))
            if path.is_file() and not path.is_relative_to(self.run):
                self.fail(
                    f"the log of the run lies outside its directory: {self._short(path)}",
                    key,
                    "the logs of all runs mix there",
                    command(self.config, f"{key}={OUTPUT_DIR}/{path.name}"),
                )
            else:
                self._expect(path, key, path.name)

    def _expect(self, path: Path, key: str, name: str) -> None:
        if path.is_file():
            self.found.append(name)
            return
        self.fail(
            f"{self._short(path)} is missing", key, "nobody can tell later what was run", "look at what removes it"
        )

    def _judge_checkpoints(self) -> None:
        trainer = self.trainer
        callbacks = [callback for callback in trainer.callbacks if isinstance(callback, ModelCheckpoint)]
        if trainer.fast_dev_run or not callbacks or any(type(c) is not ModelCheckpoint for c in callbacks):
            return
        written = sorted(self.run.rglob("*.ckpt"))
        if written:
            self.found.append(f"{len(written)} checkpoint{'s' * (len(written) > 1)}")
        if self._is_default(callbacks):
            place = ", ".join(sorted({self._short(path.parent) for path in written})) or "no place"
            others = [name for name in self.job.get("callbacks") or {} if not str(name).startswith("debug_")]
            self.fail(
                f"no callback of the config keeps checkpoints; the Trainer's own default puts one into {place}",
                f"callbacks has {', '.join(others) or 'nothing'}, and no ModelCheckpoint",
                "it keeps the last weights, not the best, where the logger or else the working directory happens to be",
                "put a pytorch_lightning.callbacks.ModelCheckpoint with monitor and "
                f"dirpath={OUTPUT_DIR}/checkpoints into callbacks, or {self._no_checkpoints()} to keep none",
            )
            return
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
            if empty or (due and not any(Path(path).exists() for path in paths)):
                key = self._part_key(callback)
                self.fail(
                    f"{self._short(Path(empty[0]))} is empty" if empty else "no checkpoint was written in an epoch",
                    self._place(key) if key else "ModelCheckpoint",
                    "the weights of the run are lost when it ends",
                    "look at the arguments of ModelCheckpoint: " + (key or "it is built in code"),
                )

    def _is_default(self, callbacks: list[ModelCheckpoint]) -> bool:
        """Whether the checkpoints come from the Trainer itself, because nobody gave it a callback for them."""
        plain = len(callbacks) == 1 and callbacks[0] in self.undirected and callbacks[0].monitor is None
        return plain and not self._part_key(callbacks[0]) and not self._names("ModelCheckpoint")

    def _no_checkpoints(self) -> str:
        mark = "" if "enable_checkpointing" in (self.job.get("trainer") or {}) else "+"
        return f"{mark}trainer.enable_checkpointing=false"

    def _judge_loggers(self) -> None:
        for logger in self.trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                self._judge_events(logger)
            elif isinstance(logger, CSVLogger):
                self._judge_csv(logger)
        folders = {path.parent for path in self.run.rglob("events.out.tfevents.*")}
        for folder in sorted(folders - {Path(logger.log_dir).resolve() for logger in self._board_loggers()}):
            if not any(scalars(path) for path in folder.glob("events.out.tfevents.*")) and not any(
                folder.is_relative_to(Path(logger.log_dir).resolve()) for logger in self._board_loggers()
            ):
                self._fail_empty(f"the event file in {self._short(folder)} holds no scalars", self._short(folder))

    def _board_loggers(self) -> list[TensorBoardLogger]:
        return [logger for logger in self.trainer.loggers if isinstance(logger, TensorBoardLogger)]

    def _judge_events(self, logger: TensorBoardLogger) -> None:
        # Histograms and single runs of add_scalars lie in folders below.
        paths = list(Path(logger.log_dir).rglob("events.out.tfevents.*"))
        tags = {tag for path in paths for tag in scalars(path)} - {"epoch"}
        if tags:
            self.found.append(f"events with {len(tags)} scalars")
        else:
            what = "the event file holds no scalars" if paths else "there is no event file"
            self._fail_empty(f"{what}: {self._short(Path(logger.log_dir))}", self._logger_place(logger))

    def _judge_csv(self, logger: CSVLogger) -> None:
        path = Path(logger.log_dir) / "metrics.csv"
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        if len(lines) > 1:
            self.found.append("metrics.csv")
        else:
            what = "holds no values" if path.is_file() else "is missing"
            self._fail_empty(f"{self._short(path)} {what}", self._logger_place(logger))

    def _fail_empty(self, what: str, where: str) -> None:
        if self.trainer.logged_metrics or self.trainer.callback_metrics:
            why = "metrics were logged, but not one has reached the file: nobody can look at the run later"
            fix = "look for self.log(..., logger=False), and for a logger that is closed or replaced too early"
        else:
            why = "nothing was logged in training or validation: nobody can look at the run later"
            fix = "in training_step and validation_step: self.log('train/loss', loss)"
        self.fail(what, where, why, fix)

    def _logger_place(self, logger: Logger) -> str:
        key = self._part_key(logger)
        return self._place(key) if key else self._built(type(logger).__name__) or type(logger).__name__

    def _judge_sharing(self) -> None:
        hydra = self.config.hydra
        sweeps = hydra.mode == RunMode.MULTIRUN
        key = "hydra.sweep.subdir" if sweeps else "hydra.run.dir"
        raw = OmegaConf.to_container(hydra.sweep if sweeps else hydra.run, resolve=False)["subdir" if sweeps else "dir"]
        typed = key in {key_of(text) for text in hydra.overrides.hydra}
        constant = "${" not in CONSTANT.sub("", str(raw))
        resumed = self.trainer.ckpt_path and Path(self.trainer.ckpt_path).resolve().is_relative_to(self.run)
        unique = "${hydra.job.num}" if sweeps else "outputs/${now:%Y-%m-%d}/${now:%H-%M-%S}"
        tell = self.fail
        if PathsWatch.folders.count(hydra.runtime.output_dir) > 1:
            what = f"two jobs of this sweep share {self._short(self.run)}"
        elif PathsWatch.found and not sweeps and not resumed:
            names = ", ".join(PathsWatch.found[:3])
            what = f"{self._short(self.run)} held the results of another job already: {names}"
        elif self.run == self.here:
            what = "the run's directory is the working directory itself"
        elif constant and (sweeps or not typed):
            what = f"every job gets the same directory, {self._short(self.run)}"
        elif constant and not Path(raw).is_absolute():
            tell, what = self.warn, f"the next run of this command gets the same directory, {self._short(self.run)}"
        else:
            return
        tell(
            what,
            f"{key}={raw}",
            "the later job overwrites checkpoints and logs of the earlier one, or mixes with them",
            command(self.config, f"{key}={unique}"),
        )

    def _data(self) -> list[Path]:
        """Return the folders that the DataModule was told of, as far as they are not the project itself."""
        datamodule = self.trainer.datamodule
        values = [*vars(datamodule).values(), *datamodule.hparams.values()] if datamodule is not None else []
        texts = [value for value in values if isinstance(value, (str, Path)) and value]
        named = [Path(os.path.realpath(self.here / text)) for text in texts]
        above = {self.here, *self.here.parents, *self.run.parents}
        return [path for path in named if path.is_dir() and path not in above]

    def _place(self, key: str) -> str:
        """Return a key with the file and line where it was set."""
        try:
            return trace_config(self.config).where(key)
        except Exception:  # Hydra's internals, which a later version may change
            return key

    def _names(self, word: str) -> bool:
        return bool(self._built(word))

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
        if not hasattr(self, "parsed"):
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
