"""Regression of the columns of a table: python train.py +experiment=tabular_regression"""

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanAbsoluteError, MetricCollection, R2Score
from training_config.errors import ConfigError
from training_runs.sampling.epoch_sampler import EpochSampler
from training_runs.sampling.folds import split

Row = dict[str, str]  # a cell by the name of its column


class TableData(LightningDataModule):
    """Rows of a CSV file, or of Friedman's function (Friedman 1991, section 4.3): 60, 20 and 20 percent of them."""

    def __init__(
        self,
        csv: str | None,
        target: str,
        unit: PositiveFloat,
        features: PositiveInt,
        batch_size: PositiveInt,
        seed: NonNegativeInt,
        fold: NonNegativeInt | None = None,
        folds: PositiveInt = 5,
    ) -> None:
        super().__init__()
        self.fold, self.folds = fold, folds
        self.csv, self.target, self.unit, self.features = csv, target, unit, features
        self.batch_size, self.seed = batch_size, seed
        self.source = "Friedman's function" if csv is None else Path(csv).name
        self.predict_files: list[Path] | None = None  # eval.py predict=new.csv sets it

    def setup(self, stage: str) -> None:
        rows = friedman() if self.csv is None else read_rows(Path(self.csv))
        if self.target not in rows[0]:
            raise ConfigError(f"data.target={self.target} is no column of {self.csv}; it has {', '.join(rows[0])}")
        order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))  # one split for every seed
        rest, test = order.tensor_split([len(order) * 4 // 5])
        train, val = split(rest, len(rest) // 4, self.fold, self.folds)
        parts = (train, val, test)
        self.columns = Columns([rows[index] for index in parts[0]], self.target)
        features, targets = self.columns.features(rows), self.columns.table(rows, [self.target])[:, 0] / self.unit
        if features.shape[1] != self.features:
            raise ConfigError(
                f"data.features={self.features} but {self.source} has {features.shape[1]}, with one for each word of "
                f"{', '.join(self.columns.words) or 'no column'}; say data.features={features.shape[1]}"
            )
        if targets.isnan().any():
            raise ConfigError(f"data.target={self.target} is empty in row {1 + int(targets.isnan().nonzero()[0])}")
        self.train_set, self.val_set, self.test_set = (Rows(features[part], targets[part]) for part in parts)

    def train_dataloader(self) -> DataLoader:
        sampler = EpochSampler(self.train_set, self.batch_size, self.seed, self.trainer)  # resumes amid an epoch
        return DataLoader(self.train_set, batch_size=self.batch_size, sampler=sampler)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val_set, batch_size=self.batch_size)

    def test_dataloader(self) -> DataLoader:
        return DataLoader(self.test_set, batch_size=self.batch_size)

    def predict_dataloader(self) -> DataLoader:
        if self.predict_files is None:
            return self.test_dataloader()
        rows = [row for path in self.predict_files for row in read_rows(path)]
        return DataLoader(TensorDataset(self.columns.features(rows)), batch_size=self.batch_size)


class Rows(TensorDataset):
    """Pairs of features and target; eval.py writes `labels` beside its predictions."""

    @property
    def labels(self) -> Tensor:
        return self.tensors[1]


class Columns:
    """Makes features of rows: numbers with mean 0 and standard deviation 1 over the training rows, words as 0 and 1.

    An empty cell is taken for the mean, a word that no training row has for none.
    """

    def __init__(self, rows: Sequence[Row], target: str) -> None:
        names = [name for name in rows[0] if name != target]
        self.words = {
            name: sorted({row[name] for row in rows if row[name]})
            for name in names
            if not all(is_number(row[name]) for row in rows)
        }
        self.numbers = [name for name in names if name not in self.words]
        table = self.table(rows, self.numbers)
        self.mean = table.nanmean(dim=0)
        self.std = (table - self.mean).square().nanmean(dim=0).sqrt().clamp(min=1e-6)

    def table(self, rows: Sequence[Row], names: Sequence[str]) -> Tensor:
        """Return the numbers (rows, names) of some columns, NaN where a cell is empty."""
        for number, row in enumerate(rows, start=1):
            wrong = [name for name in names if not is_number(row.get(name, "none"))]
            if wrong:
                raise ConfigError(f"row {number}: {wrong[0]}={row.get(wrong[0])} must be a number or empty")
        return torch.tensor([[float(row[name] or "nan") for name in names] for row in rows])

    def features(self, rows: Sequence[Row]) -> Tensor:
        numbers = ((self.table(rows, self.numbers) - self.mean) / self.std).nan_to_num(0)
        words = [[row[name] == word for name, known in self.words.items() for word in known] for row in rows]
        return torch.cat([numbers, torch.tensor(words, dtype=torch.float32)], dim=1)


def is_number(cell: str) -> bool:
    try:
        return cell == "" or math.isfinite(float(cell))
    except ValueError:
        return False


def friedman() -> list[Row]:
    """Return 2,000 rows of ten features and a target `y` that the last five have no part in."""
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(2000, 10, generator=generator)
    y = 10 * (math.pi * x[:, 0] * x[:, 1]).sin() + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    table = torch.cat([x, (y + torch.randn(2000, generator=generator)).unsqueeze(1)], dim=1)
    return [dict(zip([*(f"x{k}" for k in range(10)), "y"], map(str, row), strict=True)) for row in table.tolist()]


def read_rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows:
        raise ConfigError(f"{path} has no rows; its first line is to name the columns")
    return rows


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
