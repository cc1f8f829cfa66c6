"""One batch through every stage that the project has."""

from typing import Any

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.utilities.model_helpers import is_overridden

from training_checklist.check import Check
from training_checklist.observe import loss_of

STAGES = ("validate", "test", "predict")


class FastDevRun(Check):
    """Fails where a hook raises, a loss is not finite or exactly 0, a logged metric is NaN, or a step returns None.

    `Trainer(fast_dev_run=True)` drives training and validation; testing and prediction follow here, because not every
    project's training script has them.
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
        loss = loss_of(outputs, trainer)
        place = f"{type(pl_module).__name__}.training_step, batch 0"
        if loss is None:
            if pl_module.automatic_optimization:
                self.fail(
                    "training_step returned None, so that Lightning skipped the batch without a word",
                    place,
                    "no gradient is computed and no weight changes in such a step",
                    "return the loss; return None on purpose only, to skip a batch",
                )
            return
        self.facts["first_loss"] = value = float(loss)
        self.seen = f"first loss {value:.4g}"
        if not torch.isfinite(loss).all():
            self.fail(
                f"the first loss is {value}",
                place,
                "every weight becomes NaN with the first step of the optimizer",
                "python train.py +debug=limit_batches for the data, python train.py +debug=overflow for the network",
            )
        elif value == 0:
            self.fail(
                "the first loss is exactly 0",
                place,
                "an untrained network cannot be right: the loss is detached from labels or outputs, or multiplied by 0",
                "python train.py +debug=gradients",
            )

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.num_val_batches:
            self.ran.append("validate")
        self._judge_metrics(trainer)
        for stage in STAGES:
            if stage not in self.ran and has_stage(stage, pl_module, trainer.datamodule):
                self._run(stage, trainer, pl_module)
        self.seen = "; ".join(filter(None, [self.seen, f"ran {', '.join(self.ran)}"]))

    def _run(self, stage: str, trainer: Trainer, pl_module: LightningModule) -> None:
        own = Trainer(
            fast_dev_run=True,
            accelerator=trainer.accelerator,
            devices=1,
            precision=trainer.precision,
            enable_model_summary=False,
            enable_progress_bar=False,
        )
        try:
            getattr(own, stage)(pl_module, datamodule=trainer.datamodule)
            self.ran.append(stage)
            self._judge_metrics(own)
        finally:
            pl_module.trainer = trainer
            if trainer.datamodule is not None:
                trainer.datamodule.trainer = trainer

    def _judge_metrics(self, trainer: Trainer) -> None:
        for name, value in trainer.callback_metrics.items():
            if not torch.isfinite(value).all():
                self.fail(
                    f"the metric {name} is {float(value)} after one batch",
                    f"self.log({name!r}, ...)",
                    "checkpoints and early stopping compare by metrics, and NaN is never better than anything",
                    "look at what the metric divides by; python train.py +debug=limit_batches for the data",
                )


def has_stage(stage: str, pl_module: LightningModule, datamodule: Any) -> bool:
    """Whether the project has a step and data for a stage."""
    step, loader = {
        "validate": ("validation_step", "val_dataloader"),
        "test": ("test_step", "test_dataloader"),
        "predict": ("predict_step", "predict_dataloader"),
    }[stage]
    source = pl_module if datamodule is None else datamodule
    return is_overridden(step, pl_module) and is_overridden(loader, source)
