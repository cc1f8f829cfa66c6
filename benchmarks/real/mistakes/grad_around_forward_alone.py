"""Forces of molecules, which are the derivative of an energy that the network answers with."""

import torch
from made import Splits, distances, molecules
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "torchmd/torchmd-net e266f45"
WRONG = "Gradients are switched on around the call of the network within a step of all stages, not around validation."
NAMED: dict[str, str] = {}
NEEDS = (
    "nothing: with today's Lightning both forms give the same numbers in training and in validation, and the same "
    "graph for the training loss"
)
TWIN = {"memory/graph-in-validation": "true: the graph of the validation loss is for nothing, here as there"}
TRAINER = {"inference_mode": False}  # forces need a graph in validation, too


class Energy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1, bias=False))

    def forward(self, positions: Tensor) -> Tensor:
        positions = positions.detach().requires_grad_()
        energy = self.net(distances(positions))
        return -torch.autograd.grad(energy.sum(), positions, create_graph=True)[0]


class Forces(LightningModule):
    derivative = True

    def __init__(self) -> None:
        super().__init__()
        self.model = Energy()

    def step(self, batch: list[Tensor], stage: str) -> Tensor:
        positions, forces = batch
        with torch.set_grad_enabled(stage == "train" or self.derivative):
            answers = self.model(positions)
        loss = functional.mse_loss(answers, forces)
        self.log(f"{stage}/loss", loss.detach())
        return loss

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.step(batch, "train")

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.step(batch, "val")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class Mended(Forces):
    def step(self, batch: list[Tensor], stage: str) -> Tensor:
        positions, forces = batch
        loss = functional.mse_loss(self.model(positions), forces)
        self.log(f"{stage}/loss", loss.detach())
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        with torch.set_grad_enabled(self.derivative):
            self.step(batch, "val")


def with_forces(samples: int, seed: int) -> torch.utils.data.TensorDataset:
    positions = molecules(samples, seed).tensors[0].requires_grad_()
    energy = (distances(positions) - 2).square().mean(1).sum()
    [gradient] = torch.autograd.grad(energy, positions)
    return torch.utils.data.TensorDataset(positions.detach(), -gradient)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Forces)(), Splits(with_forces(512, 1), with_forces(128, 5))
