"""A student that learns to see what its teacher sees, which is an average of the student."""

import copy

import torch
from made import Splits, Task, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "galilai-group/stable-pretraining cdafb494"
WRONG = "The teacher is brought up to date wherever it is asked, in validation too: each batch validated changes it."
NAMED = {"learning/validation-changes-weights": "teacher"}


class Pair(nn.Module):
    def __init__(self, student: nn.Module, rate: float = 0.95) -> None:
        super().__init__()
        self.student, self.rate = student, rate
        self.teacher = copy.deepcopy(student).requires_grad_(False)

    @torch.no_grad()
    def update_teacher(self) -> None:
        for teacher, student in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            teacher.lerp_(student, 1 - self.rate)


class CarefulPair(Pair):
    def update_teacher(self) -> None:
        if self.training:
            super().update_teacher()


class Distilled(Task):
    pair_class = Pair

    def __init__(self) -> None:
        super().__init__()
        self.pair = self.pair_class(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)))
        self.predictor = nn.Linear(8, 8)

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        self.pair.update_teacher()
        with torch.no_grad():
            aim = self.pair.teacher(second)
        return 2 - 2 * functional.cosine_similarity(self.predictor(self.pair.student(first)), aim).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam([*self.pair.student.parameters(), *self.predictor.parameters()], lr=3e-3)


class Mended(Distilled):
    pair_class = CarefulPair


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Distilled)(), Splits(views(512, 1), views(128, 5), batch_size=64)
