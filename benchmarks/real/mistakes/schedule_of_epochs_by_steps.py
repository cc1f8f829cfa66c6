"""A policy whose learning rate falls in milestones that are epochs."""

import torch
from made import CLASSES, Splits, Task, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "ai4co/rl4co f848ab6"
WRONG = "interval is 'step' where nothing is said, and the milestones are epochs: the rate falls within the first one."
NAMED = {"schedule/counted-in-epochs": "MultiStepLR|configure_optimizers"}
TRAINER = {"max_epochs": 10}


class Classifier(Task):
    interval = "step"

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [8, 9], gamma=0.1)
        return [optimizer], [{"scheduler": schedule, "interval": self.interval}]


class Mended(Classifier):
    interval = "epoch"


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Classifier)(), Splits(rows(512, 1), rows(128, 5))
