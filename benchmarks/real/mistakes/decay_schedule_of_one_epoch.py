"""A classifier whose weight decay falls along a cosine, by a callback."""

import math

import torch
from made import CLASSES, Splits, Task, rows
from pytorch_lightning import Callback, LightningDataModule, LightningModule, Trainer
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "galilai-group/stable-pretraining b3a18cca"
WRONG = "The schedule of the weight decay is as long as one epoch, and is over where the run has nine tenths to go."
NAMED = {"schedule/hook-over-early": "weight_decay.*\n.*DecaySchedule"}
TRAINER = {"max_epochs": 10}


class DecaySchedule(Callback):
    def __init__(self, start: float = 0.1, end: float = 0.001) -> None:
        self.start, self.end, self.steps = start, end, 1

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.steps = self.length(trainer)

    def length(self, trainer: Trainer) -> float:
        return len(trainer.datamodule.train_dataloader())

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: object) -> None:
        share = min(trainer.global_step / self.steps, 1)
        for group in optimizer.param_groups:
            group["weight_decay"] = self.end + (self.start - self.end) * (1 + math.cos(math.pi * share)) / 2


class DecayOfTheRun(DecaySchedule):
    def length(self, trainer: Trainer) -> float:
        return trainer.estimated_stepping_batches


class Classifier(Task):
    schedule = DecaySchedule

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def configure_callbacks(self) -> list[Callback]:
        return [self.schedule()]

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, labels = batch
        return functional.cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=0.01, weight_decay=0.1)


class Mended(Classifier):
    schedule = DecayOfTheRun


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Classifier)(), Splits(rows(512, 1), rows(128, 5))
