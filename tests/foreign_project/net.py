import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Regression(pl.LightningModule):
    def __init__(self, width: int, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, 1))

    def step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        return nn.functional.mse_loss(self.net(inputs), targets)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        return self.step(batch)

    def validation_step(self, batch: list[torch.Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.step(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class Sums(pl.LightningDataModule):
    def __init__(self, batch_size: int) -> None:
        super().__init__()
        self.batch_size = batch_size

    def loader(self, seed: int, shuffle: bool) -> DataLoader:
        inputs = torch.randn(64, 4, generator=torch.Generator().manual_seed(seed))
        return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), self.batch_size, shuffle=shuffle)

    def train_dataloader(self) -> DataLoader:
        return self.loader(1, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return self.loader(2, shuffle=False)
