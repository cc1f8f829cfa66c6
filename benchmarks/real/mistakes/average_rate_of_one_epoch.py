"""A student that learns to see what its teacher sees: an average whose rate rises to 1 along a cosine."""

import copy
import math

import torch
from made import Splits, Task, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "vturrisi/solo-learn cf70ac0"
WRONG = (
    "The rate of the average rises over the batches of one epoch and not of the run: it is 1 when the first is over, "
    "and the teacher stands still."
)
NAMED = {"schedule/hook-over-early": "average.*\n.*Bootstrap"}
TRAINER = {"max_epochs": 10}


class Bootstrap(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.online = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
        self.predictor = nn.Linear(8, 8)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        with torch.no_grad():
            aim = self.target(second)
        return 2 - 2 * functional.cosine_similarity(self.predictor(self.online(first)), aim).mean()

    def length(self) -> float:
        return self.trainer.num_training_batches

    def on_train_batch_end(self, *_: object) -> None:
        share = min(self.trainer.global_step / self.length(), 1)
        rate = 1 - (1 - 0.9) * (1 + math.cos(math.pi * share)) / 2
        with torch.no_grad():
            for target, online in zip(self.target.parameters(), self.online.parameters(), strict=True):
                target.lerp_(online, 1 - rate)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam([*self.online.parameters(), *self.predictor.parameters()], lr=self.lr)


class Mended(Bootstrap):
    def length(self) -> float:
        return self.trainer.num_training_batches * self.trainer.max_epochs


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Bootstrap)(), Splits(views(512, 1), views(128, 5), batch_size=64)
