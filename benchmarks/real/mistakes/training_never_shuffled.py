"""Yield of wind in the next hours from the hours before, in windows that lie in the order of time."""

import torch
from made import Splits, Task, drawn
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

SOURCE = "openclimatefix/PVNet 3909adf"
WRONG = "shuffle=False stands among the arguments of all loaders, that of training too: it reads hour after hour."
NAMED = {
    "data/neighbours-in-one-batch": "train_dataloader",
    "data/sorted-by-class": "train_dataloader",
    "data/wrong-loader-shuffled": "train_dataloader",
}
BEFORE, AHEAD = 12, 4


def windows(hours: int, seed: int) -> TensorDataset:
    """Return windows (B, 12) and what follows (B, 4) of a wind that turns from calm weeks to stormy ones."""
    noise = torch.randn(hours, generator=drawn(seed))
    wind = torch.zeros(hours)
    for hour in range(1, hours):
        wind[hour] = 0.97 * wind[hour - 1] + 0.24 * noise[hour]
    pieces = wind.unfold(0, BEFORE + AHEAD, AHEAD).clone()
    return TensorDataset(pieces[:, :BEFORE], pieces[:, BEFORE:])


class Wind(Splits):
    common = {"shuffle": False}  # noqa: RUF012 a constant

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, **self.common)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size, **self.common)


class MendedWind(Wind):
    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True)


class Forecast(Task):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(BEFORE, 32), nn.ReLU(), nn.Linear(32, AHEAD))

    def loss(self, batch: list[Tensor]) -> Tensor:
        before, ahead = batch
        return functional.l1_loss(self.net(before), ahead)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return Forecast(), (MendedWind if mended else Wind)(windows(4000, 1), windows(1000, 5))
