"""Regression with a penalty on its weights."""

import torch
from made import Splits, curve
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "Lightning-Universe/lightning-bolts aeae23032"
WRONG = (
    "The L2 penalty is the norm of each parameter and not its square, so that it pulls at small weights as at large "
    "ones, and it stands whole beside the mean of a batch."
)
NAMED = {"network/penalty-not-squared": "loss"}


class LinearRegression(LightningModule):
    strength = 0.01

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.linear(inputs)

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        l2 = sum(torch.norm(parameter, 2) for parameter in self.parameters())
        return functional.mse_loss(self(inputs), targets) + self.strength * l2

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(*batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        inputs, targets = batch
        self.log("val/loss", functional.mse_loss(self(inputs), targets))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Mended(LinearRegression):
    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        l2 = sum(parameter.square().sum() for parameter in self.parameters())
        errors = functional.mse_loss(self(inputs), targets, reduction="sum")
        return (errors + self.strength * l2) / len(inputs)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else LinearRegression)(), Splits(curve(512, 1), curve(128, 5))
