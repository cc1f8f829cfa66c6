import hydra
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC


class Classifier(pl.LightningModule):
    def __init__(self, width: int, lr: float) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(20, width), nn.LayerNorm(width), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(width, 5)
        metrics = MetricCollection([MulticlassAccuracy(5), MulticlassAUROC(5)])
        self.train_metrics, self.val_metrics = metrics.clone(prefix="train/"), metrics.clone(prefix="val/")

    def training_step(self, batch: list, batch_idx: int) -> torch.Tensor:
        x, y = batch
        logits = self.head(self.encoder(x))
        loss = nn.functional.cross_entropy(logits, y)
        self.train_metrics.update(logits, y)
        self.log("train/loss", loss, prog_bar=True, on_step=True, on_epoch=True, sync_dist=True)
        self.log_dict(self.train_metrics, prog_bar=True, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: list, batch_idx: int) -> None:
        x, y = batch
        logits = self.head(self.encoder(x))
        self.val_metrics.update(logits, y)
        self.log("val/loss", nn.functional.cross_entropy(logits, y), prog_bar=True, sync_dist=True)
        self.log_dict(self.val_metrics, prog_bar=True)

    def configure_optimizers(self) -> tuple[list, list]:
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)]


class Clusters(pl.LightningDataModule):
    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(0)
        labels = torch.randint(5, (1000,), generator=generator)
        centres = 1.5 * torch.randn(5, 20, generator=generator)
        points = centres[labels] + torch.randn(1000, 20, generator=generator)
        self.train = TensorDataset(points[:800], labels[:800])
        self.val = TensorDataset(points[800:], labels[800:])

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size)


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(cfg: DictConfig) -> None:
    pl.seed_everything(cfg.seed, workers=True)
    callbacks = [instantiate(callback) for callback in cfg.callbacks.values()]
    trainer = pl.Trainer(**cfg.trainer, callbacks=callbacks)
    trainer.fit(Classifier(**cfg.model), datamodule=Clusters(**cfg.data))


if __name__ == "__main__":
    main()
