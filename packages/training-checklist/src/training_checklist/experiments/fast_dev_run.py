"""One batch through every stage that the project has."""

from pathlib import Path
from typing import Any

from training_checklist.engines import loads
from training_checklist.engines.like_hooks import like_hooks
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import reported_loss
from training_checklist.engines.stages import has_stage
from training_checklist.evidence.stages import FirstStep, LoggedMetrics
from training_checklist.experiments.config.code_reads import read_code
from training_checklist.experiments.experiment import Experiment, NoWorkers
from training_checklist.lightning import LightningModule, Trainer

STAGES = ("validate", "test", "predict")


class FastDevRun(Experiment):
    """`Trainer(fast_dev_run=True)` drives training and validation.

    Testing and prediction follow on the same Trainer, because not every project's training script has them.
    """

    item = "fast_dev_run"
    shapes_run = True
    ends_with_fit = True
    no_workers = True

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[str] = []

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, outputs: Any, *_: Any) -> None:
        self.ran.append("train")
        loss = reported_loss(outputs, trainer)
        place = of_function(type(pl_module).training_step)
        self.judge(FirstStep(None if loss is None else float(loss), pl_module.automatic_optimization, place))
        if loss is not None:
            self.facts["first_loss"] = float(loss)
            self.seen = f"first loss {float(loss):.4g}"

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._judge_hooks(trainer, pl_module)
        if "train" not in self.ran:
            self.skip("no training batch was run")
        if trainer.num_val_batches:
            self.ran.append("validate")
        self._judge_metrics(trainer)

    def after_fit(self, trainer: Trainer) -> None:
        pl_module, datamodule = trainer.lightning_module, trainer.datamodule
        for stage in STAGES:
            if stage not in self.ran and has_stage(stage, pl_module, datamodule):
                self._run(stage, trainer, pl_module, datamodule)
        self.seen = "; ".join(filter(None, [self.seen, f"ran {', '.join(self.ran)}"]))

    def _judge_hooks(self, trainer: Trainer, pl_module: LightningModule) -> None:
        code = read_code([])
        things = [pl_module, *([] if trainer.datamodule is None else [trainer.datamodule]), *trainer.callbacks]
        self.judge(*(like_hooks(things, code.words) if code is not None else ()))

    def conclude(self, folder: Path) -> None:
        if self.ran:  # else nothing says that the item has been at work
            self.judge(*loads.seen())

    def _run(self, stage: str, trainer: Trainer, pl_module: LightningModule, datamodule: Any) -> None:
        """Run a stage as the project would; what it raises there is said, and the next stage follows."""
        try:
            with NoWorkers():
                pass_on(getattr(type(trainer), stage), trainer, pl_module, datamodule=datamodule)
        except Exception as error:
            self.raised(error)
            return
        self.ran.append(stage)
        self._judge_metrics(trainer)

    def _judge_metrics(self, trainer: Trainer) -> None:
        known = {name: value for name, value in trainer.callback_metrics.items() if value.numel() == 1}
        self.judge(LoggedMetrics({name: float(value) for name, value in known.items()}, list(self.ran)))
