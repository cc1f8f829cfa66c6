"""Classification of images with a loader for each split."""

from made import CLASSES, Splits, Task, pictures
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

SOURCE = "orobix/quadra e9ece1d6"
WRONG = "The validation loader reads the training set."
NAMED = {"data/shared-samples": "val_dataloader"}


class Images(Splits):
    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size)


class Classifier(Task):
    lr = 3e-3

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self.net(images), labels)


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return Classifier(), (Splits if mended else Images)(pictures(512, 1), pictures(128, 5))
