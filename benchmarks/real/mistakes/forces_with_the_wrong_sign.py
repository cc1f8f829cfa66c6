"""Energies and forces of molecules, both from one network, whose derivative the forces are."""

import torch
from made import Splits, Task, distances, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

SOURCE = "torchmd/torchmd-net ccc626f"
WRONG = "What the dataset stores as the derivative of the energy has its sign turned: energies and forces disagree."
NAMED: dict[str, str] = {}
NEEDS = (
    "a bar for one batch: `overfit` takes it for memorised where the loss has halved, with either sign; energies and "
    "forces that disagree can be memorised no further, and why, only the physics knows"
)
TRAINER = {"inference_mode": False}  # derivatives need a graph in validation, too


def with_derivative(samples: int, seed: int, sign: float) -> TensorDataset:
    positions = molecules(samples, seed).tensors[0].requires_grad_()
    energy = (distances(positions) - 2).square().mean(dim=1, keepdim=True)
    [derivative] = torch.autograd.grad(energy.sum(), positions)
    return TensorDataset(positions.detach(), energy.detach(), sign * derivative)


class Potential(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def loss(self, batch: list[Tensor]) -> Tensor:
        positions, energy, derivative = batch
        with torch.enable_grad():
            positions = positions.detach().requires_grad_()
            answer = self.net(distances(positions))
            [slope] = torch.autograd.grad(answer.sum(), positions, create_graph=True)
        return functional.mse_loss(answer, energy) + 10 * functional.mse_loss(slope, derivative)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    sign = 1.0 if mended else -1.0
    return Potential(), Splits(with_derivative(512, 1, sign), with_derivative(128, 5, sign))
