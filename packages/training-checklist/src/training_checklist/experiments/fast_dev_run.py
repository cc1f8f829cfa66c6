"""One batch through every stage that the project has."""

import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from training_checklist.engines import config_reads, loads
from training_checklist.engines.batches import batch_size, leaves
from training_checklist.engines.logged import names_of
from training_checklist.engines.own_code import is_own, pass_on
from training_checklist.engines.own_config import own_config
from training_checklist.engines.replay import reported_loss
from training_checklist.engines.stages import has_stage
from training_checklist.experiments.experiment import Experiment, NoWorkers
from training_checklist.lab.data import tests_by_itself
from training_checklist.lab.stages import Stages
from training_checklist.lightning import LightningModule, Trainer

STAGES = ("validate", "test", "predict")


class FastDevRun(Experiment):
    """`Trainer(fast_dev_run=True)` drives training and validation.

    Testing and prediction follow on the same Trainer, because not every project's training script has them.
    """

    item = "fast_dev_run"
    shapes_run = True
    ends_with_fit = True
    begins_anew = True
    no_workers = True

    def __init__(self, topics: Sequence[str] = ()) -> None:
        super().__init__(topics)
        self.ran: list[str] = []
        self.stages = Stages()
        self.waiting: set[str] = set()  # names of metrics that a later batch of training updates, if any
        self.alike = False  # whether all samples of the last batch had one label

    @property
    def is_over(self) -> bool:
        """A Trainer that finds a learning rate leaves `fit` without a batch, and finds none with fast_dev_run."""
        return super().is_over and "train" in self.ran

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.alike = have_one_label(batch)
        self.ran += ["train"] if "train" not in self.ran else []
        logged = names_of(trainer.fit_loop.epoch_loop._results).items()
        self.waiting |= {name for name, each in logged if getattr(each.value, "_update_count", None) == 0}
        loss = reported_loss(outputs, trainer)
        self.ask(self.probes, self.stages, pl_module=pl_module, first_loss=None if loss is None else float(loss))
        if loss is not None and "first_loss" not in self.facts:
            self.facts["first_loss"] = float(loss)
            self.seen = f"first loss {float(loss):.4g}"

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.alike = self.alike or have_one_label(batch)  # what training and validation log is looked at together

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        self.alike = have_one_label(batch)

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        parts = pl_module, trainer.datamodule, *trainer.callbacks
        self.stages.end_of_training = [part for part in parts if part is not None]
        if "train" not in self.ran:
            self.skip("no training batch was run")
        if trainer.num_val_batches:
            self.ran.append("validate")
        self._look_at_metrics(trainer)

    def after_fit(self, trainer: Trainer) -> None:
        if "train" not in self.ran:
            return
        pl_module, datamodule = trainer.lightning_module, trainer.datamodule
        own = own_config() or OmegaConf.create()
        keys = {stage: OmegaConf.select(own, stage, throw_on_resolution_failure=False) for stage in STAGES}
        for stage in STAGES:
            if keys[stage] is False:  # what it needs may not be there
                self.seen = "; ".join(filter(None, [self.seen, f"{stage}=false"]))
            elif stage not in self.ran and has_stage(stage, pl_module, datamodule):
                self._run(stage, trainer, pl_module, datamodule)
        self.seen = "; ".join(filter(None, [self.seen, f"ran {', '.join(self.ran)}"]))

    def conclude(self, folder: Path) -> None:
        if self.ran:  # else nothing says that the item has been at work
            self.ask(self.probes, self.stages, loaded_weights=loads.seen(), config_reads=config_reads.seen())

    def _run(self, stage: str, trainer: Trainer, pl_module: LightningModule, datamodule: Any) -> None:
        """Run a stage as the project would; what it raises there is said, and the next stage follows.

        Data to predict, or what else the project's own code asks for then, may not be there where a program predicts
        only when it is asked to: that alone is no fault. Nor is a test by the Trainer where the project's code takes
        the test samples itself.
        """
        try:
            with NoWorkers():
                pass_on(getattr(type(trainer), stage), trainer, pl_module, datamodule=datamodule)
        except Exception as error:
            no_data = stage == "predict" and not trainer.predict_loop.batch_progress.current.ready
            is_own_test = stage == "test" and tests_by_itself()
            if no_data or (stage == "predict" and is_own_refusal(error)) or is_own_test:
                said = next(iter(str(error).splitlines()), "")[:120]
                why = "no code calls Trainer.test, which raises" if is_own_test else "nothing to predict here"
                self.seen = f"{self.seen}; {why}: {type(error).__name__}: {said}"
                return
            self.raised(error)
            return
        self.ran.append(stage)
        self._look_at_metrics(trainer)

    def _look_at_metrics(self, trainer: Trainer) -> None:
        known = {name: value for name, value in trainer.callback_metrics.items() if name not in self.waiting}
        metrics = {name: float(value) for name, value in known.items() if value.numel() == 1}
        self.ask(self.probes, self.stages, metrics=metrics, alike=self.alike)


def is_own_refusal(error: Exception) -> bool:
    """Whether it is a line of the project's own code that raises an exception, `raise ValueError(...)`."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return is_own(last.filename) and (last.line or "").startswith("raise ")


def have_one_label(batch: Any) -> bool:
    """Whether all samples of a batch have one label, as the first ones of sorted data: a number each, or an empty mask.

    Also of a single sample.
    """
    size, parts = batch_size(batch), leaves(batch).values()
    columns = [each.flatten() for each in parts if each.numel() == size]
    return (
        size == 1
        or any(bool((each == each[0]).all()) for each in columns)
        or not all(bool(each.any()) for each in parts)
    )
