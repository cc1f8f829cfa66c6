"""A digit classifier with dropout in its forward pass, by the function and not the module."""

from made import CLASSES, Splits, Task, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional

SOURCE = "pytorch/examples c053f31"
WRONG = "F.dropout is called without training=self.training: it drops half of the units in validation, too."
NAMED = {"learning/dropout-in-validation": "dropped|dropout"}


class Classifier(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(144, 64), nn.Linear(64, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.relu(self.first(images.flatten(1)))
        return self.second(self.dropped(hidden))

    def dropped(self, hidden: Tensor) -> Tensor:
        return functional.dropout(hidden)

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self(images), labels)


class Mended(Classifier):
    def dropped(self, hidden: Tensor) -> Tensor:
        return functional.dropout(hidden, training=self.training)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return (Mended if mended else Classifier)(), Splits(pictures(512, 1), pictures(128, 5))
