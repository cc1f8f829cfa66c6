"""A calculator of energies that gives gradients on demand: here, to be fitted through it."""

from contextlib import AbstractContextManager, nullcontext

import torch
from made import Splits, distances, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "atomistic-machine-learning/schnetpack 722a8202"
LOUD = True
WRONG = "Where gradients are required the calculator runs under no_grad, and where they are not it keeps a graph."
NAMED = {"gradients/loss-cut-off": r"Calculator\.calculate"}


class Calculator(nn.Module):
    def __init__(self, gradients_required: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
        self.gradients_required = gradients_required

    def context(self) -> AbstractContextManager:
        return torch.no_grad() if self.gradients_required else nullcontext()

    def calculate(self, positions: Tensor) -> Tensor:
        with self.context():
            return self.net(distances(positions))


class MendedCalculator(Calculator):
    def context(self) -> AbstractContextManager:
        return nullcontext() if self.gradients_required else torch.no_grad()


class Fitted(LightningModule):
    calculator_class = Calculator

    def __init__(self) -> None:
        super().__init__()
        self.calculator = self.calculator_class(gradients_required=True)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        positions, energy = batch
        loss = functional.mse_loss(self.calculator.calculate(positions), energy)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        positions, energy = batch
        self.log("val/loss", functional.mse_loss(self.calculator.calculate(positions), energy))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class Mended(Fitted):
    calculator_class = MendedCalculator


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Fitted)(), Splits(molecules(512, 1), molecules(128, 5))
