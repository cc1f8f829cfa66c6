"""Energies of molecules, with a root mean squared error that is logged in validation."""

from made import Splits, Task, distances, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torchmetrics import MeanSquaredError

SOURCE = "atomistic-machine-learning/schnetpack 890bc183"
WRONG = "What the metric says of each batch is logged, and not the metric: its mean over batches is no root of a mean."
NAMED = {"learning/mean-of-batches": "rmse"}


class Energies(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
        self.val_rmse = MeanSquaredError(squared=False)

    def loss(self, batch: list[Tensor]) -> Tensor:
        positions, energy = batch
        return functional.mse_loss(self.net(distances(positions)), energy)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        positions, energy = batch
        answers = self.net(distances(positions))
        self.log("val/loss", functional.mse_loss(answers, energy))
        self.log_metric(answers, energy)

    def log_metric(self, answers: Tensor, energy: Tensor) -> None:
        self.log("val/rmse", self.val_rmse(answers, energy))


class Mended(Energies):
    def log_metric(self, answers: Tensor, energy: Tensor) -> None:
        self.val_rmse(answers, energy)
        self.log("val/rmse", self.val_rmse)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Energies)(), Splits(molecules(512, 1), molecules(150, 5), batch_size=10)
