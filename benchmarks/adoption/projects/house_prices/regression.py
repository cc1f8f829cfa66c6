from itertools import pairwise

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchmetrics.regression import MeanAbsoluteError, R2Score


class PriceModel(L.LightningModule):
    """Price of a house, in thousands, from eight columns."""

    def __init__(self, hidden: list[int], lr: float, weight_decay: float, patience: int) -> None:
        super().__init__()
        self.save_hyperparameters()
        widths = [8, *hidden]
        layers = [nn.Sequential(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        self.net = nn.Sequential(nn.BatchNorm1d(8), *layers, nn.Linear(widths[-1], 1))
        self.val_mae, self.test_r2 = MeanAbsoluteError(), R2Score()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x).squeeze(1)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self(x), y)
        self.log("train/mse", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        x, y = batch
        self.val_mae(self(x), y)
        self.log("val/mae", self.val_mae, prog_bar=True)

    def test_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        x, y = batch
        self.test_r2(self(x), y)
        self.log("test/r2", self.test_r2)

    def configure_optimizers(self) -> dict:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=self.hparams.weight_decay)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=self.hparams.patience)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val/mae"}}


class Houses(L.LightningDataModule):
    def __init__(self, batch_size: int, samples: int) -> None:
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage: str) -> None:
        generator = torch.Generator().manual_seed(11)
        scale = torch.tensor([100.0, 3.0, 1.0, 20.0, 0.5, 2.0, 1.0, 5.0])  # square metres, rooms, ...: unscaled columns
        x = torch.rand(self.hparams.samples, 8, generator=generator) * scale + scale
        price = 2.5 * x[:, 0] + 30 * x[:, 1] * x[:, 2] - 4 * x[:, 3] + 12 * x[:, 7]
        price += 10 * torch.randn(len(price), generator=generator)
        self.train, self.val, self.test = random_split(TensorDataset(x, price), [0.8, 0.1, 0.1], generator)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.hparams.batch_size, shuffle=True, num_workers=2)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.hparams.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test, self.hparams.batch_size)
