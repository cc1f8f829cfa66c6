"""The job once more: in a process beside it, and from a checkpoint of its own."""

import copy
import inspect
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import torch
from hydra._internal.callbacks import Callbacks
from hydra.core.global_hydra import GlobalHydra
from hydra.core.utils import JobReturn, JobStatus, run_job
from hydra.experimental.callback import Callback as HydraCallback
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict, read_write

from training_checklist import session
from training_checklist.ending import FitEnded
from training_checklist.engines.fingerprints import state_of
from training_checklist.engines.inside import before_writing
from training_checklist.engines.listings import listed_backwards
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.short_runs import schedules_of_short_runs
from training_checklist.engines.unseeded import unseeded
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.reproducibility.further_steps import Recorder
from training_checklist.experiments.reproducibility.quiet import silenced
from training_checklist.lightning import Callback, LightningModule, Trainer
from training_checklist.starting.arguments import same
from training_checklist.starting.check import FOLDER
from training_checklist.starting.own_files import put_back
from training_checklist.starting.placement import move, own_folder
from training_checklist.starting.start import STARTED, Starter

AGAIN = "again.log"  # what the second process prints


class Repetition(HydraCallback):
    """Hydra's callback that repeats the job in a process beside it, and in the end resumes it from a checkpoint.

    A process of its own, because no other begins as the first did: the order of sets, module-level generators. It lists
    folders backwards, as another machine may.

    Args:
        timeout: seconds to wait for the repetition when the job has ended.
        repeated: whether this process is the repetition.
    """

    current: ClassVar["Repetition | None"] = None

    def __init__(self, timeout: float, repeated: bool) -> None:
        self.timeout, self.repeated = timeout, repeated
        self.saved: Path | None = None
        self.recorder: Recorder | None = None  # of the steps that followed the checkpoint
        self.resuming: Resuming | None = None
        self.error: Exception | None = None
        self.failure: Exception | None = None  # a mistake made here
        self.listing = ExitStack()
        self.listed: set[tuple[str, int]] = set()  # lines of the project that list folders
        self.unseeded: set[tuple[str, int]] = set()  # those that make generators without a seed

    def on_job_start(self, config: DictConfig, task_function: TaskFunction, **kwargs: Any) -> None:
        Repetition.current, self.config, self.train = self, config, task_function
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)  # sums over another number of threads come out differently
        own = own_folder(config)
        self.folder, self.logs = own / "reproducibility", own / FOLDER  # of which what the item says remains
        self.logs.mkdir(exist_ok=True)
        if not self.repeated:
            (self.folder / "again").mkdir(parents=True)
            self.beside = Thread(target=self._repeat, daemon=True)
            self.beside.start()
            before_writing.append(self._let_end)
            self.listing.callback(before_writing.remove, self._let_end)
        else:
            self.listed = self.listing.enter_context(listed_backwards())
            self.unseeded = self.listing.enter_context(unseeded())

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **kwargs: Any) -> None:
        try:
            if job_return.status == JobStatus.COMPLETED and self.saved is not None:
                self._resume()
            if not self.repeated:
                self.beside.join(self.timeout)
        except Exception as failure:  # of which Hydra would make a warning
            self.failure = failure
        finally:
            self.listing.close()
            torch.set_num_threads(self.threads)

    def _let_end(self) -> None:
        """Wait for the repetition, which would find what this run saves in the project's place, and saves there too."""
        self.beside.join(self.timeout)
        if not self.beside.is_alive():
            put_back(self.folder / "again")

    def _repeat(self) -> None:
        again = self.folder / "again"
        arguments = [*same(self.config), "hydra.callbacks.debug_reproducibility.repeated=true"]
        process = Starter(self.config, self.train).start_anew(arguments, again, self.logs / AGAIN)
        note = self.folder / f"again{STARTED}"
        note.write_text(str(process.pid), encoding="utf-8")
        process.wait()
        note.unlink(missing_ok=True)

    def _resume(self) -> None:
        """Let the project's own training function begin from the checkpoint and take the steps that followed it."""
        config = copy.deepcopy(self.config)
        with read_write(config), open_dict(config), read_write(config.hydra), open_dict(config.hydra):
            config.hydra.callbacks = {}
            move(config, self.folder / "resumed")
            own = config.get("callbacks")
            for key in [key for key in own if str(key).startswith("debug_")] if isinstance(own, DictConfig) else ():
                del own[key]
        context = HydraContext(GlobalHydra.instance().hydra.config_loader, Callbacks(config))
        log = self.logs / "resumed.log"
        given = self.recorder.given if self.recorder is not None else []
        with (
            log.open("w", encoding="utf-8") as output,
            silenced(output),
            session.aside(),
            Resuming(self.saved, given) as self.resuming,
        ):
            done = run_job(
                task_function=self.train,  # by their names, as Hydra does: another package may have replaced it
                config=config,
                job_dir_key="hydra.run.dir",
                job_subdir_key=None,
                hydra_context=context,
            )
        if done.status == JobStatus.FAILED:
            self.error = done._return_value


class Resuming(Callback):
    """While it is entered, `Trainer.fit` resumes from a checkpoint and takes the steps `given` once more.

    Attributes:
        state: what there was before the first of them, None where training has not begun.
        error: what `fit` has raised; what the program raises after it is none of the checkpoint's.
        recorder: of what became of them.
    """

    def __init__(self, checkpoint: Path, given: list[tuple[Any, Any]]) -> None:
        self.checkpoint, self.given = checkpoint, given
        self.recorder: Recorder | None = None
        self.state: dict[str, Any] | None = None
        self.error: Exception | None = None

    def __enter__(self) -> "Resuming":
        self._fit = fit = Trainer.fit

        @wraps(fit)
        def resume(trainer: Trainer, *arguments: Any, **options: Any) -> None:
            bound = inspect.signature(fit).bind(trainer, *arguments, **options)
            bound.arguments["ckpt_path"] = self.checkpoint
            kept = [callback for callback in trainer.callbacks if not isinstance(callback, Experiment)]
            trainer.callbacks = [self, *kept]
            with schedules_of_short_runs(trainer, bound.arguments["model"]):
                try:
                    pass_on(fit, *bound.args, **bound.kwargs)
                except Exception as error:
                    self.error = error
                    raise

        Trainer.fit = resume
        return self

    def __exit__(self, *error: object) -> None:
        Trainer.fit = self._fit
        if self.recorder is not None:
            self.recorder.__exit__()

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.state is not None:
            return
        # Not in on_train_start: the module's own hooks of that name come after it.
        self.state = state_of(trainer, pl_module)
        if not self.given:
            raise FitEnded("resumed: all that was to be seen")
        self.recorder = Recorder(trainer, pl_module, self.given).__enter__()

    def on_train_batch_end(self, *_: Any) -> None:
        if self.recorder is not None and len(self.recorder.steps) >= len(self.given):
            raise FitEnded("resumed: all that was to be seen")
