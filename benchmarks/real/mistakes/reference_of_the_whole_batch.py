"""Energies of molecules of several kinds of atoms, less what the atoms have by themselves."""

import torch
from made import Splits, Task, distances, drawn, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

SOURCE = "torchmd/torchmd-net 500b04c"
WRONG = "The energies of all atoms of the batch are subtracted from each molecule, and not those of its own atoms."
NAMED = {
    "network/targets-of-other-samples": "without_reference|transfer",
    "data/samples-mixed-by-collate": "without_reference|transfer",
    "network/answers-depend-on-others": "without_reference|transfer",
}
ATOMS = 5


def several(samples: int, seed: int) -> TensorDataset:
    """Return positions, kinds of atoms (B, 5), and the energy with that of the atoms."""
    positions, energy = molecules(samples, seed).tensors
    kinds = torch.randint(3, (samples, ATOMS), generator=drawn(seed + 7))
    return TensorDataset(positions, kinds, energy + torch.tensor([0.5, 1.0, 2.0])[kinds].sum(1, keepdim=True))


class Energies(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(3, 8)
        self.net = nn.Sequential(nn.Linear(10 + 8 * ATOMS, 32), nn.Tanh(), nn.Linear(32, 1))
        self.register_buffer("reference", torch.tensor([0.5, 1.0, 2.0]))

    def without_reference(self, energy: Tensor, kinds: Tensor) -> Tensor:
        return energy - self.reference[kinds].sum()

    def on_after_batch_transfer(self, batch: list[Tensor], dataloader_idx: int) -> list[Tensor]:
        positions, kinds, energy = batch
        return [positions, kinds, self.without_reference(energy, kinds)]

    def loss(self, batch: list[Tensor]) -> Tensor:
        positions, kinds, energy = batch
        known = torch.cat([distances(positions), self.kinds(kinds).flatten(1)], dim=1)
        return functional.mse_loss(self.net(known), energy)


class Mended(Energies):
    def without_reference(self, energy: Tensor, kinds: Tensor) -> Tensor:
        return energy - self.reference[kinds].sum(dim=1, keepdim=True)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Energies)(), Splits(several(512, 1), several(128, 5))
