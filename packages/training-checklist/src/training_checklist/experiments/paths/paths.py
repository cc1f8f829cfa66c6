"""Whether everything that a run writes lies in its own directory, and is all there."""

from collections.abc import Sequence
from inspect import unwrap
from pathlib import Path
from typing import Any, ClassVar

from hydra.core.utils import JobReturn
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from training_checklist import session
from training_checklist.engines import loads
from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on, shorten
from training_checklist.engines.places import Places, here_and_outwards
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.paths.written_files import Recording
from training_checklist.lab.run_files import RunFiles, logged, records, versions
from training_checklist.lab.stages import Stages
from training_checklist.lightning import LightningModule, ModelCheckpoint, Trainer
from training_checklist.starting.check import FOLDER
from training_checklist.starting.placement import Asked

RESULTS = ("*.ckpt", "events.out.tfevents.*", "metrics.csv", "report.json")  # what a job leaves behind


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


class Paths(Experiment):
    """A short run, after which everything that it has written is looked at."""

    item = "paths"

    def __init__(self, topics: Sequence[str] = ()) -> None:
        super().__init__(topics)
        self.files = RunFiles()
        self.trainer: Trainer | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage != "fit":
            return
        self.trainer = trainer
        self.test = trainer.test
        put(trainer, "test", self._test)  # a checkpoint may hold the Trainer, as of a module that keeps its DataModule
        self._look_at_resuming(trainer)
        self.files.callbacks = [*trainer.callbacks]  # a test puts others in the place of what configure_callbacks gives
        # Lightning has put them last: they have not yet chosen a folder themselves.
        self.files.undirected = [
            callback for callback in trainer.callbacks if isinstance(callback, ModelCheckpoint) and not callback.dirpath
        ]

    def _look_at_resuming(self, trainer: Trainer) -> None:
        """See whether `fit` is to go on from the last checkpoint of a directory."""
        asked = next((frame for frame, _ in here_and_outwards() if frame.f_code is unwrap(Trainer.fit).__code__), None)
        if asked is not None and asked.f_locals.get("ckpt_path") == "last" and PathsWatch.config is not None:
            folder = getattr(trainer.checkpoint_callback, "dirpath", None) or trainer.default_root_dir
            line = Places(trainer.lightning_module).here()
            known = {"config": PathsWatch.config, "resumed_from": (Path(folder).resolve(), trainer.ckpt_path, line)}
            self.ask(self.probes, self.files, **known)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.trained, self.versions = pl_module, versions(pl_module)

    def _test(self, model: Any = None, *arguments: Any, **options: Any) -> Any:
        """Look which weights the project tests; `Trainer.test` does what it always does."""
        best = self.trainer.checkpoint_callback
        if isinstance(best, ModelCheckpoint) and best.monitor is not None and best.best_model_path:
            path = arguments[1] if len(arguments) > 1 else options.get("ckpt_path")
            as_trained = model is self.trained and path is None and versions(model) == self.versions
            self.files.tested = best.monitor, as_trained, Places(self.trained).here()
        return pass_on(self.test, model, *arguments, **options)

    def conclude(self, folder: Path) -> None:
        if self.rank != 0:
            return
        if PathsWatch.recording is None or self.trainer is None:
            self.skip("fit was not called" if self.trainer is None else "hydra.callbacks.debug_paths has not run")
            return
        files, run = self.files, Path(PathsWatch.config.hydra.runtime.output_dir).resolve()
        known = {"config": PathsWatch.config, "recording": PathsWatch.recording, "held": PathsWatch.found}
        self.ask(self.probes, files, trainer=self.trainer, run=run, **known)
        # What a script does with a checkpoint when training is over: no other item has it saved and loaded.
        self.ask([session.settings().rules["run/weights-not-loaded"]], Stages(), loaded_weights=loads.seen())
        found = [each.name for each in records(files) if each.exists and each.inside]
        count = len([*run.rglob("*.ckpt")])
        found += [f"{count} checkpoint{'s' * (count > 1)}"] if count else []
        for each in (each for each in logged(files) if each.count):
            found.append(each.file if each.file.endswith(".csv") else f"events with {each.count} scalars")
        removed = PathsWatch.recording.removed
        gone = f"; {shorten(next(iter(removed.values())))} removes what it has held" if removed else ""
        self.seen = f"{', '.join(found) or 'nothing'} in the run's directory{gone}"
