"""A policy gradient on recorded actions and returns."""

import torch
from made import CLASSES, Splits, Task, drawn, rows
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.utils.data import TensorDataset

SOURCE = "Lightning-Universe/lightning-bolts f0e2bee44"
WRONG = "The loss picks rows 0 to batch_size - 1 of what may be a smaller batch: the last one of an epoch raises."
NAMED = {"data/last-batch-fails": "loss|rows|batch", "crash": "loss|rows"}


class Reinforce(Task):
    batch_size = 32

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, CLASSES))

    def rows_of(self, scores: Tensor) -> Tensor:
        return torch.arange(self.batch_size)

    def loss(self, batch: list[Tensor]) -> Tensor:
        states, actions, returns = batch
        scores = self.net(states).log_softmax(dim=1)
        return -(returns * scores[self.rows_of(scores), actions]).mean()


class Mended(Reinforce):
    def rows_of(self, scores: Tensor) -> Tensor:
        return torch.arange(len(scores))


def played(samples: int, seed: int) -> TensorDataset:
    """Return states, actions and returns, which are higher where the action was right."""
    states, right = rows(samples, seed).tensors
    actions = torch.where(torch.rand(samples, generator=drawn(seed + 9)) < 0.7, right, right.roll(1))
    return TensorDataset(states, actions, (actions == right).float())


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Reinforce)(), Splits(played(500, 1), played(128, 5))
