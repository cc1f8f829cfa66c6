from collections.abc import Callable

import hydra
import torch
from hydra.utils import instantiate
from made import CLASSES, pictures
from omegaconf import DictConfig
from pytorch_lightning import LightningDataModule, LightningModule, Trainer, seed_everything
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset


class Shifted:
    """Moves an image sideways by up to some pixels."""

    def __init__(self, pixels: int) -> None:
        self.pixels = pixels

    def __call__(self, image: Tensor) -> Tensor:
        by = int(torch.randint(-self.pixels, self.pixels + 1, ()))
        return image.roll(by, dims=-1)


class Plain:
    def __call__(self, image: Tensor) -> Tensor:
        return image


class Transformed(Dataset):
    def __init__(self, data: Dataset, transforms: Callable) -> None:
        self.data, self.transforms = data, transforms

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, label = self.data[index]
        return self.transforms(image), label


class Digits(LightningDataModule):
    def __init__(self, batch_size: int, train_transforms: Callable, val_transforms: Callable) -> None:
        super().__init__()
        self.batch_size, self.train_transforms, self.val_transforms = batch_size, train_transforms, val_transforms
        self.train, self.val = pictures(1024, 1), pictures(256, 5)

    def train_dataloader(self, transforms: Callable | None = None) -> DataLoader:
        transforms = transforms or Plain()
        return DataLoader(Transformed(self.train, transforms), self.batch_size, shuffle=True)

    def val_dataloader(self, transforms: Callable | None = None) -> DataLoader:
        transforms = transforms or Plain()
        return DataLoader(Transformed(self.val, transforms), self.batch_size)


class Classifier(LightningModule):
    def __init__(self, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(144, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def loss(self, batch: list[Tensor]) -> Tensor:
        images, labels = batch
        return functional.cross_entropy(self.net(images), labels)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


@hydra.main(version_base="1.3", config_path=".", config_name="config")
def main(cfg: DictConfig) -> None:
    seed_everything(cfg.seed)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Classifier(cfg.model.lr), datamodule=instantiate(cfg.data))


if __name__ == "__main__":
    main()
