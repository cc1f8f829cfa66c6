"""Energies of molecules by a network whose weights are drawn by a function of the project's own."""

import math
from itertools import pairwise

import torch
from made import Splits, Task, distances, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "mir-group/nequip c2519fe3"
LOUD = True
WRONG = "The initialisation goes over `weights`, which the network had in an older version; today its layers have them."
NAMED = {"crash": "initialise"}


class FullyConnected(nn.Sequential):
    def __init__(self, *sizes: int) -> None:
        layers = [nn.Linear(size, after) for size, after in pairwise(sizes)]
        super().__init__(*(each for layer in layers for each in (layer, nn.Tanh())), nn.Linear(sizes[-1], 1))


def draw(weights: Tensor) -> None:
    with torch.no_grad():
        weights.uniform_(-1, 1).mul_(math.sqrt(3 / weights.shape[-1]))


class Energies(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.net = FullyConnected(10, 32, 32)
        self.net.apply(self.initialise)

    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, FullyConnected):
            for weights in module.weights:
                draw(weights)

    def loss(self, batch: list[Tensor]) -> Tensor:
        positions, energy = batch
        return functional.mse_loss(self.net(distances(positions)), energy)


class Mended(Energies):
    @staticmethod
    def initialise(module: nn.Module) -> None:
        if isinstance(module, FullyConnected):
            for layer in module:
                if isinstance(layer, nn.Linear):
                    draw(layer.weight)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Energies)(), Splits(molecules(512, 1), molecules(128, 5))
