"""What all checks share: a Lightning callback that collects findings while a run lasts."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.callbacks import Checkpoint, EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader

from training_checklist import session
from training_checklist.verdict import FAILED, WARNING, Finding, FitEnded, Verdict, launched_rank

# Past the setters, which refuse some of it once a loader is built.
WITHOUT_WORKERS = {
    "num_workers": 0,
    "prefetch_factor": None,
    "persistent_workers": False,
    "timeout": 0,
    "_DataLoader__multiprocessing_context": None,
}


class Check(Callback):
    """One item of the checklist.

    A subclass names its `item` and calls `fail`, `warn` or `skip` from Lightning's hooks; `conclude` is called when
    the run is over. Its constructor takes its thresholds, which the item's YAML sets.
    """

    item: ClassVar[str]
    shapes_run: ClassVar[bool] = False  # whether it decides how long the run lasts; two of those exclude each other
    drops: ClassVar[tuple[type[Callback], ...]] = (EarlyStopping,)  # callbacks that would only disturb
    no_workers: ClassVar[bool] = False  # whether data are loaded in this process while it fits
    ends_with_fit: ClassVar[bool] = False  # whether the training function ends where it would go on to test

    def __init__(self) -> None:
        torch.compiler.set_stance("force_eager")  # modules of a compiled network are hidden from hooks
        self.findings: list[Finding] = []
        self.seen = ""
        self.skipped: str | None = None
        self.facts: dict[str, Any] = {}
        self.rank, self.world_size = launched_rank(), 1
        self.loading = NoWorkers()
        self.started = time.monotonic()

    def fail(self, what: str, where: str, why: str, fix: str) -> None:
        self._add(Finding(FAILED, what, where, why, fix))

    def warn(self, what: str, where: str, why: str, fix: str) -> None:
        self._add(Finding(WARNING, what, where, why, fix))

    def findings_about(self, start: str) -> bool:
        return any(finding.what.startswith(start) for finding in self.findings)

    def skip(self, reason: str) -> None:
        """Say why this item means nothing here."""
        self.skipped = reason

    def conclude(self, folder: Path) -> None:
        """Judge what can only be judged when the run is over; `folder` is the run's directory."""

    def explain(self, error: Exception) -> Finding | None:
        """Return what an exception of the run means to this item, or None where it says nothing particular."""
        return None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.rank, self.world_size = trainer.global_rank, trainer.world_size
        # A new list: Lightning is going through the old one.
        kept = [callback for callback in trainer.callbacks if not isinstance(callback, self.drops)]
        if trainer.checkpoint_callback is not None and Checkpoint in self.drops:
            # Training functions ask for the best path; this one saves nothing and has none.
            kept.append(ModelCheckpoint(save_top_k=0))
        trainer.callbacks = kept
        if self.no_workers and stage == "fit":
            self.loading.__enter__()

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        # The few epochs and steps that an item asks for come after those that a resumed run has behind it.
        loop, epochs, steps = trainer.fit_loop, checkpoint.get("epoch", 0) + 1, checkpoint.get("global_step", 0)
        if loop.max_epochs is not None and 0 < loop.max_epochs <= epochs:
            loop.max_epochs += epochs
        if 0 < loop.epoch_loop.max_steps <= steps:
            loop.epoch_loop.max_steps += steps

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self.no_workers and stage == "fit":
            self.loading.__exit__()
        if self.ends_with_fit and stage == "fit":
            trainer.validate = trainer.test = trainer.predict = end

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        if self.no_workers:
            self.loading.__exit__()  # Lightning tears no callback down then

    def verdict(self, question: str) -> Verdict:
        seconds = time.monotonic() - self.started
        return Verdict(self.item, question, self.findings, self.seen, self.skipped, seconds, self.facts)

    def _add(self, finding: Finding) -> None:
        if finding not in self.findings:
            self.findings.append(finding)


def end(*_: Any, **__: Any) -> NoReturn:
    """Stand for `Trainer.test` where there is nothing that it could test."""
    raise FitEnded("training is over, and that was all that the debug item asked for")


def stop(trainer: Trainer) -> None:
    """Let `fit` end before its next step, as if training were over."""
    trainer.should_stop = True


class NoWorkers:
    """While it is entered, every DataLoader that is built loads in this process, whatever it was asked for.

    A DataModule decides about its loaders itself, and not every one has an argument for their workers.
    """

    def __enter__(self) -> None:
        # Two checks of one run leave in the order in which they entered: both keep the original.
        self._init = init = getattr(DataLoader.__init__, "original", DataLoader.__init__)

        @wraps(init)  # Lightning reads the signature
        def without_workers(loader: DataLoader, *arguments: Any, **options: Any) -> None:
            init(loader, *arguments, **options)
            vars(loader).update(WITHOUT_WORKERS)

        without_workers.original = init
        DataLoader.__init__ = without_workers

    def __exit__(self, *error: object) -> None:
        DataLoader.__init__ = self._init


class NoTraining(Callback):
    """Ends `fit` before its first step: for a job that has been done before training could begin."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        stop(trainer)


@contextmanager
def every_trainer(parts: DictConfig) -> Iterator[None]:
    """While it is entered, the checks of every Trainer that is built take part, and those of `parts` that it lacks.

    Args:
        parts: configs of checks, by their keys in `callbacks`.
    """
    init = Trainer.__init__

    @wraps(init)
    def with_checks(trainer: Trainer, *arguments: Any, **options: Any) -> None:
        init(trainer, *arguments, **options)
        built = {f"debug_{callback.item}" for callback in trainer.callbacks if isinstance(callback, Check)}
        trainer.callbacks += [instantiate(part) for key, part in parts.items() if part and key not in built]
        for callback in trainer.callbacks:
            if isinstance(callback, Check):
                session.add(callback)

    Trainer.__init__ = with_checks
    try:
        yield
    finally:
        Trainer.__init__ = init
