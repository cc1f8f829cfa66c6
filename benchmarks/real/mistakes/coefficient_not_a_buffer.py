"""A teacher whose rate rises epoch by epoch, and is kept in a tensor."""

import copy

import torch
from made import Splits, Task, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "galilai-group/stable-pretraining 9c63f673"
WRONG = "The rate of the average is a tensor that is no buffer: it is not in a checkpoint, nor moved to a device."
NAMED = {
    "device/attribute-not-buffer": "rate",
    "reproducibility/attribute-not-saved": "rate",
    "device/two-devices": "rate",
}
NEEDS = "a resumed run in which it matters: `check()` resumes nothing, and a number without dimensions may be mixed"


class Teacher(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.student = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.predictor = nn.Linear(8, 8)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.keep_rate(torch.tensor(0.9))

    def keep_rate(self, rate: Tensor) -> None:
        self.rate = rate

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        with torch.no_grad():
            aim = self.teacher(second)
        return 2 - 2 * functional.cosine_similarity(self.predictor(self.student(first)), aim).mean()

    def on_train_batch_end(self, *_: object) -> None:
        with torch.no_grad():
            for teacher, student in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
                teacher.mul_(self.rate).add_((1 - self.rate) * student)

    def on_train_epoch_end(self) -> None:
        self.rate = self.rate + (1 - self.rate) * 0.1

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam([*self.student.parameters(), *self.predictor.parameters()], lr=self.lr)


class Mended(Teacher):
    def keep_rate(self, rate: Tensor) -> None:
        self.register_buffer("rate", rate)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Teacher)(), Splits(views(512, 1), views(128, 5), batch_size=64)
