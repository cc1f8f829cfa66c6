"""A student that learns a teacher's features, with a learning rate that falls near the end."""

import torch
from made import Splits, Task, drawn, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "openvinotoolkit/anomalib 06982b537"
WRONG = "The length of the run is the greater of its two limits, and the lesser ends it: the rate never falls."
NAMED = {"schedule/longer-than-the-run": "StepLR|configure_optimizers"}
TRAINER = {"max_epochs": 10, "max_steps": 5000}


class Distillation(Task):
    longest = max

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8)).requires_grad_(False)
        self.student = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        for parameter in self.teacher.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=drawn(len(parameter))))

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, _ = batch
        return functional.mse_loss(self.student(inputs), self.teacher(inputs))

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.Adam(self.student.parameters(), lr=3e-3)
        batches = len(self.trainer.datamodule.train_dataloader())
        steps = type(self).longest(self.trainer.max_steps, self.trainer.max_epochs * batches)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, max(1, int(0.95 * steps)))
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Mended(Distillation):
    longest = min


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Distillation)(), Splits(rows(512, 1), rows(128, 5))
