"""The project's own run with an item's limits and nothing else of it: whose is an exception under the item?"""

from typing import Any

from training_checklist.ending import FitEnded
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.short_runs import schedules_of_short_runs
from training_checklist.engines.stages import has_stage
from training_checklist.experiments.experiment import Experiment, keep_every_epoch, stop, without
from training_checklist.experiments.fast_dev_run import STAGES
from training_checklist.lightning import LightningModule, Trainer, is_overridden

STEPS = 25  # more than an item takes before it has seen every hook once; overfit and learning go on from there


class Without(Experiment):
    """Looks at nothing, and ends a training that is longer than `STEPS`.

    Args:
        stages: whether the project's further stages follow training.
        ends: whether nothing else follows it.
    """

    item = "without"
    eager = False

    def __init__(self, stages: bool, ends: bool) -> None:
        super().__init__()
        self.stages, self.ends = stages, ends
        self.steps = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.state = trainer.state
        trainer.callbacks = without(trainer, self.drops)  # as under an item, else another one may raise before
        keep_every_epoch(trainer)
        if stage == "fit" and is_overridden("configure_optimizers", pl_module):
            self.watching.enter_context(schedules_of_short_runs(trainer, pl_module))

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        self.watching.close()

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self.steps += 1
        if self.steps >= STEPS:
            stop(trainer)

    def after_fit(self, trainer: Trainer) -> None:
        if self.stages:
            pl_module, datamodule = trainer.lightning_module, trainer.datamodule
            for stage in STAGES:
                if has_stage(stage, pl_module, datamodule):
                    pass_on(getattr(trainer, stage), pl_module, datamodule=datamodule)
        if self.ends or self.stages:
            raise FitEnded("the item has looked no further")
