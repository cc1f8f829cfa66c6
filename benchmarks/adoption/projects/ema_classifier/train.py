import hydra
import lightning as L
import torch
import torchvision
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, Dataset, default_collate
from torchmetrics.classification import MulticlassAccuracy
from torchvision.transforms import v2


class Shapes(Dataset):
    """RGB images, (3, 32, 32): a square, a disc or a cross of any colour, normalised as ImageNet is."""

    def __init__(self, samples: int, seed: int, train: bool) -> None:
        generator = torch.Generator().manual_seed(seed)
        axis = torch.arange(32.0)
        centre = 10 + 12 * torch.rand(samples, 2, 1, 1, generator=generator)
        y, x = (axis.view(1, 32, 1) - centre[:, 0]).abs(), (axis.view(1, 1, 32) - centre[:, 1]).abs()
        forms = torch.stack([(x < 6) & (y < 6), x**2 + y**2 < 49, ((x < 2) & (y < 8)) | ((y < 2) & (x < 8))])
        self.labels = torch.randint(3, (samples,), generator=generator)
        colour = 0.4 + 0.6 * torch.rand(samples, 3, 1, 1, generator=generator)
        self.images = forms[self.labels, torch.arange(samples)].unsqueeze(1) * colour
        augment = [v2.RandomCrop(32, padding=2), v2.RandomHorizontalFlip()] if train else []
        self.transform = v2.Compose([*augment, v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.transform(self.images[index]), self.labels[index]


class ShapesData(L.LightningDataModule):
    def __init__(self, batch_size: int, samples: int, mix: float) -> None:
        super().__init__()
        self.batch_size, self.samples = batch_size, samples
        self.mixup = v2.MixUp(alpha=mix, num_classes=3)

    def setup(self, stage: str) -> None:
        self.train, self.val = Shapes(self.samples, 1, train=True), Shapes(self.samples // 4, 2, train=False)

    def collate(self, samples: list) -> tuple[torch.Tensor, torch.Tensor]:
        return self.mixup(*default_collate(samples))

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True, collate_fn=self.collate, drop_last=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size)


class ResNet(L.LightningModule):
    def __init__(self, lr: float, weight_decay: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.model = torchvision.models.resnet18(weights=None, num_classes=3)
        nn.init.zeros_(self.model.fc.weight)
        self.accuracy = MulticlassAccuracy(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)

    def training_step(self, batch: list, batch_idx: int) -> torch.Tensor:
        images, soft_labels = batch
        loss = nn.functional.cross_entropy(self(images), soft_labels, label_smoothing=0.1)
        self.log("train/loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch: list, batch_idx: int) -> None:
        images, labels = batch
        self.accuracy(self(images), labels)
        self.log("val/accuracy", self.accuracy, prog_bar=True)

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.SGD(
            self.parameters(), lr=self.hparams.lr, momentum=0.9, weight_decay=self.hparams.weight_decay
        )
        scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    L.seed_everything(cfg.seed, workers=True)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = L.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(ResNet(**cfg.model), ShapesData(**cfg.data))


if __name__ == "__main__":
    main()
