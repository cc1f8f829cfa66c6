"""A classifier whose warm-up and cosine are as long as the run has steps."""

import torch
from made import CLASSES, Splits, Task, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR

SOURCE = "vturrisi/solo-learn a7ac404"
WRONG = "The schedule's lengths are steps, and it is stepped once an epoch: the rate never leaves its warm-up."
NAMED = {"schedule/counted-in-steps": "configure_optimizers|SequentialLR"}


class Classifier(Task):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, CLASSES))

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        steps = self.trainer.estimated_stepping_batches
        warm, length = max(1, steps // 10), steps
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer, warm, length)}

    def schedule(self, optimizer: torch.optim.Optimizer, warm: int, length: int) -> dict:
        rise = LinearLR(optimizer, 0.01, total_iters=warm)
        fall = CosineAnnealingLR(optimizer, max(1, length - warm))
        return {"scheduler": SequentialLR(optimizer, [rise, fall], [warm]), "interval": "epoch"}


class Mended(Classifier):
    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        epochs = self.trainer.max_epochs
        return {"optimizer": optimizer, "lr_scheduler": self.schedule(optimizer, max(1, epochs // 10), epochs)}


TRAINER = {"max_epochs": 20}


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Classifier)(), Splits(pictures(320, 1), pictures(64, 5))
