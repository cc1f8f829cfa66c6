"""Stages beside training: whether a project has them, and the first batch of one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from training_checklist.engines import writes
from training_checklist.experiments.experiment import NoWorkers
from training_checklist.lightning import LightningModule, Trainer, combined, is_overridden, isolate_rng
from training_checklist.probe import CannotJudge

PARTS = {
    "validate": ("validation_step", "val_dataloader"),
    "test": ("test_step", "test_dataloader"),
    "predict": ("predict_step", "predict_dataloader"),
}


def has_stage(stage: str, pl_module: LightningModule, datamodule: Any) -> bool:
    """Whether the project has a step and data for a stage."""
    step, loader = PARTS[stage]
    return is_overridden(step, pl_module) and is_overridden(loader, pl_module if datamodule is None else datamodule)


@contextmanager
def first_batch(trainer: Trainer, pl_module: LightningModule, stage: str) -> Iterator[Any]:
    """Give the first batch of a stage after training, as its loader gives it; the Trainer has that loader meanwhile.

    Raises:
        CannotJudge: the stage has no batch.
        Exception: of any kind, of code of the project that the run would not have called here.
    """
    source = pl_module if trainer.datamodule is None else trainer.datamodule
    with isolate_rng(), NoWorkers(), patch.object(writes, "unasked", stage == "predict"):
        source.setup(stage)
        loaders = combined(getattr(source, PARTS[stage][1])(), "sequential")
        first = next(iter(loaders), None)
        if first is None:
            raise CannotJudge("its loader is empty")
        batch, _, _ = first
    with patch.object(getattr(trainer, f"{stage}_loop"), "_combined_loader", loaders):  # trainer.test_dataloaders
        yield batch
