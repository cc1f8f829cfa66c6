"""One seed, two runs: whether they are the same to the last bit, and whether a checkpoint brings a run back."""

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from omegaconf import DictConfig
from torch import Tensor
from torch.utils.data import DataLoader

from training_checklist import session
from training_checklist.diagnosis.config_place import place_of, raw_leaves
from training_checklist.ending import FitEnded
from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import all_leaves
from training_checklist.engines.drawn_indices import DrawnIndices, content_of
from training_checklist.engines.fingerprints import Operations, digest_of, named, rows_of
from training_checklist.engines.places import of_hooks, of_line
from training_checklist.engines.replay import seed_all
from training_checklist.engines.salted import salted
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.tracer import Tracer
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.reproducibility import recordings
from training_checklist.experiments.reproducibility.checkpoints import (
    restoring_failed,
    save,
    saved_checkpoints,
)
from training_checklist.experiments.reproducibility.further_steps import Recorder
from training_checklist.experiments.reproducibility.repetition import AGAIN, Repetition, Resuming
from training_checklist.lab.code_reads import loaded
from training_checklist.lab.seeded_runs import (
    FurtherSteps,
    Recording,
    ResumedRun,
    SeededRuns,
    TwoRuns,
    held_generators,
)
from training_checklist.lightning import LightningModule, Trainer

RECORDING = Path("debug", "recording.json")
# What of the project runs before a row of a kind is taken.
HOOKS = {
    "loss": ("training_step",),
    "gradient": ("on_after_backward", "on_before_backward", "training_step"),
    "parameter": ("optimizer_step", "on_train_batch_end", "configure_optimizers"),
}
NO_ORDER = "sums on {device} have no fixed order, so that steps differ in any project; trainer.deterministic=true"


class Reproducibility(Experiment):
    """Records a run step by step, and beside it a second one in a process of its own and a resumed one."""

    item = "reproducibility"
    shapes_run = True

    def __init__(self, topics: Sequence[str] = ()) -> None:
        super().__init__(topics)
        self.seeded = SeededRuns()
        self.recording = Recording()
        self.other: Recording | None = None  # of a run in this process, where there is no command to repeat
        self.rebuilt = False  # whether that run has built its own network
        self.step = 0
        self.operations = Operations()
        self.drawn = DrawnIndices()
        self.recorder: Recorder | None = None
        self.resumed = ResumedRun(obstacle="there is no checkpoint of this run that training could go on from")
        self.hooks: dict[str, Any] = {}
        self.untrained: LightningModule | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        device = trainer.strategy.root_device.type
        ordered = device == "cpu" or torch.are_deterministic_algorithms_enabled()
        self.recording.seed = torch.initial_seed()
        self.recording.is_printed = os.environ.get("PL_GLOBAL_SEED") == str(self.recording.seed)
        self.recording.unordered = "" if ordered else NO_ORDER.format(device=device)
        self.hooks = {kind: of_hooks(pl_module, hooks) for kind, hooks in HOOKS.items()}
        self.watching.enter_context(self.drawn)
        self._record("initial weight", named(pl_module))
        if not self._is_repetition():
            with suppress(Exception):  # of a network that cannot be copied
                self.untrained = stand_in(pl_module, trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watching.enter_context(around_step(pl_module, Tracer(pl_module, self.operations)))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.operations.step = self.step
        self._record("batch", by_name(batch))

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._record("loss", {"": loss})

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        # The last one first: as backward makes them.
        pairs = reversed(list(pl_module.named_parameters()))
        self._record("gradient", {name: weight.grad for name, weight in pairs if weight.grad is not None})

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        self._record("parameter", named(pl_module))
        self.step += 1

    def on_validation_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any) -> None:
        self._record("validation batch", by_name(batch))

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        # After the first epoch: a resumed run still has one to go.
        if trainer.current_epoch == 0 and not self._is_repetition() and self.earlier is None:
            self._save(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watching.close()
        self.recording.operations = self.operations.rows
        for name, loader in loaders_of(trainer):
            self.recording.drawn[name] = [digest_of(indices) for indices in self.drawn.of(loader)]
            self.recording.steady[name] = steady(loader.dataset)
            if name.startswith("train"):
                self.recording.generators += held_generators(loader.dataset)
        if not self._is_repetition():
            loaders = [(name, loader) for name, loader in loaders_of(trainer) if name.startswith("train")]
            self._ask(trainer=trainer, untrained=self.untrained, loaders=loaders)
        self.untrained = None

    def conclude(self, folder: Path) -> None:
        repetition = Repetition.current
        if self.earlier is not None:  # of several trainings, the first is compared with the first
            return
        if not self.step:
            self.skip("no step was trained")
            return
        if self._is_repetition():
            self.recording.listed = sorted(repetition.listed)
            self.recording.unseeded = sorted(repetition.unseeded)
            recordings.write(self.recording, folder / RECORDING)
            return
        self.seen = f"{self.step} steps, {len(self.recording.rows)} tensors compared"
        if self.other is not None:
            self._compare(self.other, None, self.rebuilt)
            return
        if repetition is None:
            self.skip("hydra.callbacks.debug_reproducibility has not run, so that there is no second run")
            return
        if repetition.failure is not None:
            raise repetition.failure
        path = repetition.folder / "again" / RECORDING
        if path.is_file():
            self._compare(recordings.read(path), repetition.config)
        elif not self.findings:
            self.skip(f"the same command in a second process did not finish: see {repetition.logs / AGAIN}")
        self._judge_resumed(repetition)

    def examine(self, fit: Callable[..., None], folder: Path) -> None:
        first = type(self)()
        for item in (first, self):
            repetition = Repetition(timeout=0, repeated=item is first)
            repetition.folder, repetition.config = folder, None
            with patch.object(Repetition, "current", repetition):
                seed_all()
                if item is first:
                    with session.aside(session.settings()):
                        fit(first)
                    first.conclude(folder / "again")
                    continue
                fit(self)
                if repetition.saved is not None:
                    given = repetition.recorder.given if repetition.recorder is not None else []
                    with Resuming(repetition.saved, given) as repetition.resuming:
                        try:
                            fit()
                        except FitEnded:
                            pass
                        except Exception as error:
                            repetition.error = error
                self.conclude(folder)

    def _ask(self, **known: Any) -> None:
        """Ask what has not been answered yet."""
        self.ask([probe for probe in self.probes if probe.id not in self.judged], self.seeded, **known)

    def _is_repetition(self) -> bool:
        return Repetition.current is not None and Repetition.current.repeated

    def _record(self, kind: str, found: dict[str, Tensor]) -> None:
        self.recording.rows += rows_of(kind, self.step, found)

    def _save(self, trainer: Trainer, pl_module: LightningModule) -> None:
        repetition = Repetition.current
        saved = saved_checkpoints(trainer, None if repetition is None else repetition.config)
        saved.resumes = self.resumes
        self._ask(saved=saved)
        if repetition is None or not saved.keepers or (saved.weights_only and not saved.whole):
            return
        path = repetition.folder / "first_epoch.ckpt"
        self.resumed = save(trainer, pl_module, path)
        if self.resumed.obstacle:
            return
        repetition.saved = path
        if "dataloader_iter" not in inspect.signature(pl_module.training_step).parameters:
            repetition.recorder = self.recorder = self.watching.enter_context(Recorder(trainer, pl_module))

    def _compare(self, other: Recording, config: DictConfig | None, rebuilt: bool = True) -> None:
        # As written: of data.seed=${seed}, it is seed that a user sets; one set elsewhere may seed a split alone.
        named = {key: value for key, value in raw_leaves(config).items() if key.rpartition(".")[2] == "seed"}
        unset = [place_of(config, key).beside(value="null") for key, value in named.items() if value is None]
        seeds = unset or [place_of(config, key).beside(value=str(named[key])) for key in named if key == "seed"]
        runs = TwoRuns(self.recording, other, seeds, self.hooks, rebuilt)
        # Of a run that is repeated in this process, both are the same.
        if runs.parted is not None and config is not None:
            runs.salted = salted(sorted(loaded()), {(file, line) for file, line in other.listed})
            runs.salted += [of_line(file, line) for file, line in other.unseeded] if not unset else []
        self._ask(runs=runs)
        if runs.parted is None:
            self.seen += ", equal in both runs"
        elif not self.findings:
            self.seen += f", equal up to step {runs.parted[0].step}"

    def _judge_resumed(self, repetition: Repetition) -> None:
        resuming = repetition.resuming
        if resuming is not None:
            self.resumed.found = resuming.state
            error = repetition.error
            if resuming.state is None and resuming.error is not None:
                self.resumed.error = restoring_failed(resuming.error)
            if resuming.state is None and not self.resumed.error:
                self.resumed.obstacle = (
                    f"the resumed run did not come to a step ({error})" if error else "no step was left"
                )
        self._ask(resumed=self.resumed)
        if self.findings or self.resumed.found is None:
            self.seen += f"; not resumed: {self.resumed.obstacle}" if self.resumed.obstacle else ""
            return
        self.seen += "; resumed from a checkpoint, all restored"
        again = resuming.recorder.steps if resuming.recorder is not None else []
        further = FurtherSteps(
            self.recorder.steps if self.recorder is not None else [],
            again,
            self.step - len(self.recorder.steps) if self.recorder is not None else 0,
            self.hooks["loss"],
            self.recording.unordered or (self.recorder.obstacle if self.recorder is not None else ""),
        )
        self._ask(steps=further)
        self.seen += f", {len(again)} further steps equal" if again and not self.findings else ""


def loaders_of(trainer: Trainer) -> Iterator[tuple[str, DataLoader]]:
    """Yield the DataLoaders of training and validation, by the names of the hooks that make them."""
    loops = {"train_dataloader": trainer.fit_loop, "val_dataloader": trainer.fit_loop.epoch_loop.val_loop}
    for name, loop in loops.items():
        loaders = loop._combined_loader.flattened if loop._combined_loader is not None else []
        for index, loader in enumerate(loaders):
            if isinstance(loader, DataLoader):
                yield (f"{name}[{index}]" if len(loaders) > 1 else name), loader


def steady(dataset: Any) -> bool | None:
    """Whether a dataset gives the same for the same position after the same seed; None where it cannot be read so."""
    one = content_of(dataset)
    return None if one is None else one == content_of(dataset)


def by_name(batch: Any) -> dict[str, Tensor]:
    """Return the tensors of a batch in the order of their names: fields may come in that of a set."""
    return dict(sorted(all_leaves(batch).items()))
