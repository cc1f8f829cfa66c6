"""A variational autoencoder of small images."""

import torch
from made import SIZE, Splits, Task, in_unit_range, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "pytorch/examples 963f7d1"
WRONG = (
    "The reconstruction is a mean over the batch that came, the divergence a sum divided by the batch size that was "
    "asked for: they part wherever a batch has another size."
)
NAMED = {"network/sum-beside-mean": "loss|divergence"}

PIXELS = SIZE * SIZE


class Autoencoder(Task):
    lr = 1e-3

    def __init__(self, batch_size: int = 64) -> None:
        super().__init__()
        self.batch_size = batch_size
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS, 64), nn.ReLU())
        self.mean, self.spread = nn.Linear(64, 4), nn.Linear(64, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, PIXELS), nn.Sigmoid())

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, _ = batch
        hidden = self.encoder(images)
        mean, spread = self.mean(hidden), self.spread(hidden)
        drawn = mean + torch.randn_like(mean) * (spread / 2).exp()
        return self.terms(self.decoder(drawn), images.flatten(1), mean, spread)

    def terms(self, rebuilt: Tensor, images: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
        reconstruction = functional.binary_cross_entropy(rebuilt, images)
        divergence = -0.5 * torch.sum(1 + spread - mean.square() - spread.exp())
        return reconstruction + divergence / (self.batch_size * PIXELS)


class Mended(Autoencoder):
    def terms(self, rebuilt: Tensor, images: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
        reconstruction = functional.binary_cross_entropy(rebuilt, images, reduction="sum")
        divergence = -0.5 * torch.sum(1 + spread - mean.square() - spread.exp())
        return reconstruction + divergence


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    data = Splits(in_unit_range(pictures(480, 1)), in_unit_range(pictures(96, 5)), batch_size=64)
    return (Mended if mended else Autoencoder)(), data
