"""Images that are flipped and shifted at random, in validation too."""

from collections.abc import Callable

import torch
from made import CLASSES, Splits, Task, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

SOURCE = "Lightning-Universe/lightning-bolts b8a6afa70"
WRONG = "The validation loader takes the transform of training, which is random."
NAMED = {"data/held-out-is-random": "val_dataloader"}


def shifted(image: Tensor) -> Tensor:
    return image.roll(int(torch.randint(-2, 3, ())), dims=-1)


def plain(image: Tensor) -> Tensor:
    return image


class Transformed(Dataset):
    def __init__(self, data: Dataset, transform: Callable[[Tensor], Tensor]) -> None:
        self.data, self.transform = data, transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, label = self.data[index]
        return self.transform(image), label


class Images(Splits):
    val_transform = staticmethod(shifted)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Transformed(self.train, shifted), self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(Transformed(self.val, self.val_transform), self.batch_size)


class MendedImages(Images):
    val_transform = staticmethod(plain)


class Classifier(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self.net(images), labels)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return Classifier(), (MendedImages if mended else Images)(pictures(512, 1), pictures(128, 5))
