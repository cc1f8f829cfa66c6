"""Regression of the columns of a table: python train.py +experiment=tabular_regression"""

import csv
import math
from collections.abc import Callable
from pathlib import Path

import torch
from pydantic import NonNegativeInt, PositiveInt
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanAbsoluteError, MetricCollection, R2Score
from training_config.errors import ConfigError
from training_runs.sampling.epoch_sampler import EpochSampler


class TableData(LightningDataModule):
    """Rows of a CSV file, or of Friedman's function (Friedman 1991, section 4.3): 60, 20 and 20 percent of them.

    Features have mean 0 and standard deviation 1 over the training rows.
    """

    def __init__(self, csv: str | None, target: str, batch_size: PositiveInt, seed: NonNegativeInt) -> None:
        super().__init__()
        self.csv, self.target, self.batch_size, self.seed = csv, target, batch_size, seed
        self.source = "Friedman's function" if csv is None else Path(csv).name

    def setup(self, stage: str) -> None:
        features, targets = friedman() if self.csv is None else read_table(Path(self.csv), self.target)
        order = torch.randperm(len(targets), generator=torch.Generator().manual_seed(0))  # one split for every seed
        parts = order.tensor_split([len(order) * 3 // 5, len(order) * 4 // 5])
        std, mean = torch.std_mean(features[parts[0]], dim=0)
        features = (features - mean) / std.clamp(min=1e-6)
        self.train_set, self.val_set, self.test_set = (Rows(features[part], targets[part]) for part in parts)

    def train_dataloader(self) -> DataLoader:
        sampler = EpochSampler(self.train_set, self.batch_size, self.seed, self.trainer)  # resumes amid an epoch
        return DataLoader(self.train_set, batch_size=self.batch_size, sampler=sampler)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val_set, batch_size=self.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test_set, batch_size=self.batch_size)

    predict_dataloader = test_dataloader


class Rows(TensorDataset):
    """Pairs of features and target; eval.py writes `labels` beside its predictions."""

    @property
    def labels(self) -> Tensor:
        return self.tensors[1]


def friedman() -> tuple[Tensor, Tensor]:
    """Return 2,000 rows of ten features and a target that the last five have no part in."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2000, 10, generator=generator)
    y = 10 * (math.pi * x[:, 0] * x[:, 1]).sin() + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, y + torch.randn(2000, generator=generator)


def read_table(path: Path, target: str) -> tuple[Tensor, Tensor]:
    with path.open(newline="", encoding="utf-8") as file:
        names, *rows = csv.reader(file)
    if target not in names:
        raise ConfigError(f"data.target={target} is no column of {path}; it has {', '.join(names)}")
    table = torch.tensor([[float(cell) for cell in row] for row in rows])
    column = names.index(target)
    return torch.cat([table[:, :column], table[:, column + 1 :]], dim=1), table[:, column]


class Regressor(LightningModule):
    """Two hidden layers from `features` numbers to one, trained by `criterion`."""

    def __init__(
        self,
        features: PositiveInt,
        hidden: PositiveInt,
        criterion: nn.Module,
        optimizer: Callable[..., Optimizer],
    ) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )
        self.criterion, self.optimizer = criterion, optimizer
        self.val_metrics = MetricCollection({"mae": MeanAbsoluteError(), "r2": R2Score()}, prefix="val/")
        self.test_metrics = self.val_metrics.clone(prefix="test/")
        self.example_input_array = torch.zeros(2, features)  # lets eval.py export=... know what it takes

    def forward(self, features: Tensor) -> Tensor:
        return self.net(features).squeeze(1)  # (B, features) -> (B,)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        features, targets = batch
        loss = self.criterion(self(features), targets)
        self.log("train/loss", loss, on_step=False, on_epoch=True, batch_size=len(targets))
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        features, targets = batch
        self.val_metrics.update(self(features), targets)
        self.log_dict(self.val_metrics, prog_bar=True)

    def test_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:
        features, targets = batch
        self.test_metrics.update(self(features), targets)
        self.log_dict(self.test_metrics)

    def predict_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        return self(batch[0])

    def configure_optimizers(self) -> Optimizer:
        return self.optimizer(self.parameters())
