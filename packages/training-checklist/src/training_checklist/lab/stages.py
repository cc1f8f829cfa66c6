"""What one batch of every stage comes to."""

from typing import Any

from training_checklist.engines.loads import LoadedWeights
from training_checklist.lab.shared import Subject
from training_checklist.lightning import LightningModule


class Stages(Subject):
    """What a run has come to that takes one batch through training, validation, test and prediction.

    Attributes:
        first_loss: that of the first training step, None where it has returned none.
        metrics: that were logged so far.
        alike: whether all samples of the batch had one label.
        end_of_training: the LightningModule, the DataModule and all callbacks that have trained.
        config_reads: keys of a config that somebody has read, with dots.
        loaded_weights: calls of load_state_dict(strict=False) in the project's code.
    """

    pl_module: LightningModule
    first_loss: float | None
    metrics: dict[str, float]
    alike: bool
    end_of_training: list[Any]
    config_reads: frozenset[str]
    loaded_weights: list[LoadedWeights]
