"""A classifier whose learning rate rises and then follows a cosine, as a factor of what is configured."""

import math

import torch
from made import CLASSES, Splits, Task, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "lightly-ai/lightly 8371345a"
WRONG = "Warming up ends at a factor of 1, where the cosine starts from the factor that is asked for: the rate jumps."
NAMED = {"schedule/leaps-after-warm-up": "LambdaLR|configure_optimizers"}
TRAINER = {"max_epochs": 12}


class Classifier(Task):
    lr, highest, warm = 2e-3, 4.0, 4

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(self.net(inputs), labels)

    def rise(self, epoch: int) -> float:
        return (epoch + 1) / self.warm

    def factor(self, epoch: int) -> float:
        if epoch < self.warm:
            return self.rise(epoch)
        share = (epoch - self.warm) / (self.trainer.max_epochs - self.warm)
        return self.highest * (1 + math.cos(math.pi * share)) / 2

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.factor)]


class Mended(Classifier):
    def rise(self, epoch: int) -> float:
        return self.highest * super().rise(epoch)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Classifier)(), Splits(rows(512, 1), rows(128, 5))
