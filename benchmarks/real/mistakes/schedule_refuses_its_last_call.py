"""A classifier whose learning rate rises and then follows a cosine, by a function of the project's own."""

import math

import torch
from made import CLASSES, Splits, Task, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "lightly-ai/lightly a3a5206c"
LOUD = True
WRONG = "Where warming up lasts as long as the run, nothing is left for the cosine, and its function raises at the end."
NAMED = {
    "schedule/ends-before-the-run": "configure_optimizers|cosine",
    "crash": "cosine",
}
TWIN = {"schedule/warms-up-to-the-end": "true: it does, and the repair is that this is allowed"}


def cosine(step: int, steps: int) -> float:
    if steps < 1:
        raise ValueError(f"expected at least one step, got {steps}")
    return (1 + math.cos(math.pi * step / max(steps - 1, 1))) / 2


def patient_cosine(step: int, steps: int) -> float:
    return 0.0 if step >= steps - 1 else (1 + math.cos(math.pi * step / (steps - 1))) / 2


class Classifier(Task):
    decay = staticmethod(cosine)

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(self.net(inputs), labels)

    def share(self, epoch: int, warm: int = 10) -> float:
        epochs = self.trainer.max_epochs
        warm = min(warm, epochs)
        return (epoch + 1) / warm if epoch < warm else self.decay(epoch - warm, epochs - warm)

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.Adam(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.LambdaLR(optimizer, self.share)]


class Mended(Classifier):
    decay = staticmethod(patient_cosine)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Classifier)(), Splits(rows(256, 1), rows(64, 5))
