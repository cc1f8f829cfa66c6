"""Two views that are to agree, with variance and covariance terms against collapse, as in VICReg."""

import torch
from made import Splits, Task, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "lightly-ai/lightly 7cf29706"
WRONG = "The mean is taken off before a variance that takes it off itself: work for nothing; all numbers stay the same."
NAMED: dict[str, str] = {}
NEEDS = "nothing: no value of a training changes by it, so that no run can show it; a linter's matter"


class VarianceCovariance(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))

    def variance(self, features: Tensor) -> Tensor:
        features = features - features.mean(dim=0)
        return functional.relu(1 - torch.sqrt(features.var(dim=0) + 1e-4)).mean()

    def covariance(self, features: Tensor) -> Tensor:
        centred = features - features.mean(dim=0)
        between = centred.T @ centred / (len(features) - 1)
        return (between.square().sum() - between.diagonal().square().sum()) / features.shape[1]

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        one, two = self.encoder(first), self.encoder(second)
        spread = sum(25 * self.variance(each) / 2 + self.covariance(each) for each in (one, two))
        return 25 * functional.mse_loss(one, two) + spread


class Mended(VarianceCovariance):
    def variance(self, features: Tensor) -> Tensor:
        return functional.relu(1 - torch.sqrt(features.var(dim=0) + 1e-4)).mean()


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else VarianceCovariance)(), Splits(views(512, 1), views(128, 5), batch_size=64)
