"""Energies of molecules, split into shares of which the last one is what remains."""

import math

import torch
from made import Splits, Task, distances, drawn, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import Subset

SOURCE = "atomistic-machine-learning/schnetpack 9f4e168f"
LOUD = True
WRONG = "What remains for the last part is counted by subtracting the shares, not their sizes: 599.2 of 600 samples."
NAMED = {"crash": "Molecules.sizes"}


class Molecules(Splits):
    def __init__(self, shares: tuple[float, float | None] = (0.8, None)) -> None:
        super().__init__([], [])
        self.shares = shares

    def setup(self, stage: str) -> None:
        data = molecules(600, 1)
        sizes = self.sizes(len(data))
        order = torch.randperm(sum(sizes), generator=drawn(4))
        self.train, self.val = Subset(data, order[: sizes[0]].tolist()), Subset(data, order[sizes[0] :].tolist())

    def sizes(self, samples: int) -> list[int]:
        taken = sum(share for share in self.shares if share is not None)
        return [samples - taken if share is None else math.floor(share * samples) for share in self.shares]


class MendedMolecules(Molecules):
    def sizes(self, samples: int) -> list[int]:
        taken = sum(math.floor(share * samples) for share in self.shares if share is not None)
        return [samples - taken if share is None else math.floor(share * samples) for share in self.shares]


class Energies(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))

    def loss(self, batch: list[Tensor]) -> Tensor:
        positions, energy = batch
        return functional.mse_loss(self.net(distances(positions)), energy)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return Energies(), (MendedMolecules if mended else Molecules)()
