"""Energies of molecules from the distances of all atoms, each atom's to itself among them."""

from made import Splits, Task, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "torchmd/torchmd-net 7345b88"
WRONG = "The distance of an atom to itself is the norm of 0, whose gradient is not a number."
NAMED = {
    "numerics/backward-not-finite": "lengths|sqrt|distances",
    "numerics/gradients-not-finite": "lengths|sqrt|distances",
    "gradients/not-finite": "lengths|sqrt|distances",
}


class Energies(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Linear(3, 3)
        self.net = nn.Sequential(nn.Linear(25, 32), nn.Tanh(), nn.Linear(32, 1))

    def lengths(self, apart: Tensor) -> Tensor:
        return apart.square().sum(-1).sqrt()

    def loss(self, batch: list[Tensor]) -> Tensor:
        positions, energy = batch
        placed = self.place(positions)
        distances = self.lengths(placed[:, :, None] - placed[:, None])  # (B, 5, 5)
        return functional.mse_loss(self.net(distances.flatten(1)), energy)


class Mended(Energies):
    def lengths(self, apart: Tensor) -> Tensor:
        squares = apart.square().sum(-1)
        itself = squares == 0
        return squares.masked_fill(itself, 1).sqrt().masked_fill(itself, 0)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Energies)(), Splits(molecules(512, 1), molecules(128, 5))
