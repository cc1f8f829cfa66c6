"""Speech in pieces with several labels each, and early stopping that waits for a metric by its name."""

import torch
from made import Splits, Task, drawn
from pytorch_lightning import Callback, LightningDataModule, LightningModule
from pytorch_lightning.callbacks import EarlyStopping
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

SOURCE = "pyannote/pyannote-audio 610fd8b9"
WRONG = "What is monitored is called ValLoss, and logged is val/loss."
NAMED = {"learning/monitor-not-logged": "ValLoss", "config/monitor-not-logged": "ValLoss", "crash": "ValLoss"}


def labelled(samples: int, seed: int) -> TensorDataset:
    inputs = torch.randn(samples, 16, generator=drawn(seed))
    return TensorDataset(inputs, (inputs @ torch.randn(16, 3, generator=drawn(0)) > 0).float())


class MultiLabel(Task):
    monitored = "ValLoss"

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 3))

    def configure_callbacks(self) -> list[Callback]:
        return [EarlyStopping(self.monitored, mode="min")]

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, labels = batch
        return functional.binary_cross_entropy_with_logits(self.net(inputs), labels)


class Mended(MultiLabel):
    monitored = "val/loss"


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else MultiLabel)(), Splits(labelled(512, 1), labelled(128, 5))
