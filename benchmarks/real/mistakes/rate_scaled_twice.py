"""A classifier whose learning rate grows with its batch, by a rule that two functions apply."""

import torch
from made import CLASSES, Splits, Task, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "vturrisi/solo-learn 2b0eb2c"
WRONG = "The learning rate is multiplied by batch size / 32 in two places."
NAMED: dict[str, str] = {}
NEEDS = "a configured rate to hold the optimizer's against: what is noticed is a rate too high"


class Classifier(Task):
    def __init__(self, lr: float = 0.1, batch_size: int = 512) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.lr = self.scaled(lr)
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, CLASSES))

    def scaled(self, lr: float) -> float:
        return lr * self.batch_size / 32

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.scaled(self.lr))


class Mended(Classifier):
    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    module = (Mended if mended else Classifier)(lr=0.02)
    return module, Splits(pictures(2048, 1), pictures(256, 5), batch_size=module.batch_size)
