"""Weather on a grid, one step on, with humidity kept above 0 by a softplus around its inverse."""

import torch
from made import Splits, Task, drawn
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import TensorDataset

SOURCE = "mllam/neural-lam 103c8b7a"
WRONG = (
    "torch.where takes the linear branch where expm1 overflows, and the gradient of the branch that is not taken is "
    "infinity times 0."
)
NAMED = {
    "numerics/backward-not-finite": "inverse_softplus|unclamped|expm1",
    "numerics/gradients-not-finite": "inverse_softplus|unclamped|expm1",
    "gradients/not-finite": "inverse_softplus|unclamped|expm1",
}


def states(samples: int, seed: int) -> TensorDataset:
    """Return humidity (B, 12), some of it in units in which it is large, and what it is one step later."""
    now = torch.rand(samples, 12, generator=drawn(seed)) + 0.1
    now[:, :2] = 90 + now[:, :2]
    change = torch.randn(12, generator=drawn(0)) * 0.1
    return TensorDataset(now, (now + change).clamp(min=0.01))


def unclamped_inverse(values: Tensor) -> Tensor:
    inverse = torch.log(torch.clamp_min(torch.expm1(values), 1e-6))
    return torch.where(values <= 20, inverse, values)


def clamped_inverse(values: Tensor) -> Tensor:
    inverse = torch.log(torch.expm1(values.clamp(1e-6, 20)))
    return torch.where(values <= 20, inverse, values)


class Forecast(Task):
    lr = 1e-3

    inverse_softplus = staticmethod(unclamped_inverse)

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(12))
        self.net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 12))

    def forward(self, now: Tensor) -> Tensor:
        change = self.net(now / 50 - 1)
        return functional.softplus(self.inverse_softplus(now * self.scale) + change)

    def loss(self, batch: list[Tensor]) -> Tensor:
        now, later = batch
        return functional.mse_loss(self(now), later)


class Mended(Forecast):
    inverse_softplus = staticmethod(clamped_inverse)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Forecast)(), Splits(states(512, 1), states(128, 5))
