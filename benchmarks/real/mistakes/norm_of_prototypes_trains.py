"""Clusters of unit length to which two views of a sample are assigned, each by what the other one says."""

import torch
from made import Splits, Task, views
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

SOURCE = "vturrisi/solo-learn 16183cf"
WRONG = "Prototypes are to have length 1, and weight_norm's magnitudes start from others and are trained."
NAMED: dict[str, str] = {}
NEEDS = (
    "the intention: weights whose magnitude trains are what weight_norm is for. Only the project's own assertion that "
    "prototypes have length 1 could tell"
)


class Swapped(Task):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
        self.prototypes = weight_norm(nn.Linear(8, 12, bias=False))

    def loss(self, batch: list[Tensor]) -> Tensor:
        first, second, _ = batch
        one, two = (self.prototypes(functional.normalize(self.encoder(each))) for each in (first, second))
        return (self.swapped(one, two) + self.swapped(two, one)) / 2

    def swapped(self, scores: Tensor, others: Tensor) -> Tensor:
        with torch.no_grad():
            codes = (others / 0.1).exp().T
            for _ in range(3):  # rows, then columns: each cluster gets as many samples
                codes = codes / codes.sum(dim=1, keepdim=True)
                codes = codes / codes.sum(dim=0, keepdim=True)
        return -(codes.T * (scores / 0.1).log_softmax(dim=1)).sum(dim=1).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam((each for each in self.parameters() if each.requires_grad), lr=3e-3)


class Mended(Swapped):
    def __init__(self) -> None:
        super().__init__()
        magnitudes = self.prototypes.parametrizations.weight.original0
        magnitudes.data.fill_(1)
        magnitudes.requires_grad = False


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Swapped)(), Splits(views(512, 1), views(128, 5), batch_size=64)
