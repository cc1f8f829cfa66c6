"""A system that separates two sources, with an optimizer_step of its own for schedules that go by batches."""

import torch
from made import Splits, Task, drawn
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

SOURCE = "asteroid-team/asteroid 45b3cd4c"
WRONG = "optimizer_step calls the optimizer only where there is a schedule: without one no weight ever changes."
LOUD = True  # today; the Lightning of that year said nothing
NAMED = {"gradients/unchanged-by-step": "optimizer_step", "crash": "optimizer_step"}


def mixtures(samples: int, seed: int) -> TensorDataset:
    """Return sums of a slow and a fast wave (B, 64), and the two (B, 2, 64)."""
    phases = 6.28 * torch.rand(samples, 2, 1, generator=drawn(seed))
    times = torch.linspace(0, 6.28, 64)
    waves = torch.sin(torch.tensor([[2.0], [9.0]]) * times + phases)
    return TensorDataset(waves.sum(dim=1), waves)


class System(Task):
    lr = 3e-3

    def __init__(self, schedule: object = None) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 128), nn.Unflatten(1, (2, 64)))
        self.schedule = schedule

    def loss(self, batch: list[Tensor]) -> Tensor:
        mixed, sources = batch
        return functional.mse_loss(self.model(mixed), sources)

    def optimizer_step(self, *arguments: object, **named: object) -> None:
        if self.schedule is not None:
            self.schedule.step()
            super().optimizer_step(*arguments, **named)


class Mended(System):
    def optimizer_step(self, *arguments: object, **named: object) -> None:
        if self.schedule is not None:
            self.schedule.step()
        LightningModule.optimizer_step(self, *arguments, **named)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else System)(), Splits(mixtures(512, 1), mixtures(128, 5))
