"""Segmentation of small images, whose validation loader is shuffled like that of training."""

import torch
from made import CLASSES, Splits, Task, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

SOURCE = "orobix/quadra 4501c6ea"
WRONG = "The loader of the validation set has shuffle=True."
NAMED = {"data/wrong-loader-shuffled": "val_dataloader"}


def masked(samples: int, seed: int) -> TensorDataset:
    """Return images and, of each pixel, whether it is bright before the noise."""
    images, labels = pictures(samples, seed).tensors
    means = torch.stack([images[labels == label].mean(dim=0) for label in range(CLASSES)])
    return TensorDataset(images, (means[labels, 0] > 0.3).long())


class Tiles(Splits):
    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size, shuffle=True)


class Segmentation(Task):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 3, padding=1))

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, masks = batch
        return functional.cross_entropy(self.net(images), masks)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return Segmentation(), (Splits if mended else Tiles)(masked(256, 1), masked(64, 5))
