"""Regression with targets of which some are only known to be less, or more, than what is written."""

import torch
from made import Splits, Task, curve, drawn
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

SOURCE = "chemprop/chemprop f9b2dc6f"
WRONG = "Collate unpacks the two masks in the wrong order: upper bounds are taken for lower ones."
NAMED: dict[str, str] = {}
NEEDS = "names for what a batch holds: two masks of one shape and type are alike to whoever does not know their meaning"


def bounded(samples: int, seed: int) -> TensorDataset:
    """Return inputs, targets, and masks of what is an upper, and what a lower bound."""
    inputs, targets = curve(samples, seed).tensors
    kind = torch.randint(4, targets.shape, generator=drawn(seed + 7))
    return TensorDataset(inputs, targets + 0.5 * (kind == 0) - 0.5 * (kind == 1), kind == 0, kind == 1)


def exchanged(samples: list[tuple[Tensor, ...]]) -> list[Tensor]:
    inputs, targets, lower, upper = (torch.stack(each) for each in zip(*samples, strict=True))
    return [inputs, targets, upper, lower]


def in_order(samples: list[tuple[Tensor, ...]]) -> list[Tensor]:
    inputs, targets, upper, lower = (torch.stack(each) for each in zip(*samples, strict=True))
    return [inputs, targets, upper, lower]


class Bounded(Splits):
    collate = staticmethod(exchanged)

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True, collate_fn=self.collate)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size, collate_fn=self.collate)


class MendedBounds(Bounded):
    collate = staticmethod(in_order)


class Regression(Task):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))

    def loss(self, batch: list[Tensor]) -> Tensor:
        inputs, targets, upper, lower = batch
        answers = self.net(inputs)
        kept = (upper & (answers < targets)) | (lower & (answers > targets))
        return (answers - targets).square().masked_fill(kept, 0).mean()


def parts(mended: bool) -> tuple[LightningModule, LightningDataModule]:
    return Regression(), (MendedBounds if mended else Bounded)(bounded(512, 1), bounded(128, 5))
