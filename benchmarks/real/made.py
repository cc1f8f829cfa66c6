"""Data that the cases make for themselves: small, with something to learn, and the same in every run."""

import torch
from pytorch_lightning import LightningDataModule, LightningModule
from torch import Tensor
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

CLASSES, SIZE = 4, 12  # of pictures


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Splits(LightningDataModule):
    """Two datasets in loaders, the training one shuffled."""

    def __init__(self, train: Dataset, val: Dataset, batch_size: int = 32) -> None:
        super().__init__()
        self.train, self.val, self.batch_size = train, val, batch_size

    def train_dataloader(self) -> DataLoader:
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self) -> DataLoader:
        return DataLoader(self.val, self.batch_size)


class Task(LightningModule):
    """What most cases have in common: a case has `loss(batch)`."""

    lr = 0.01

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        loss = self.loss(batch)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.loss(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=self.lr)


def rows(samples: int, seed: int, features: int = 16, classes: int = CLASSES) -> TensorDataset:
    """Return numbers around one centre for each class, and the class; mean about 0, standard deviation about 1."""
    centres = torch.randn(classes, features, generator=drawn(0))
    labels = torch.randint(classes, (samples,), generator=drawn(seed))
    noise = torch.randn(samples, features, generator=drawn(seed + 1))
    return TensorDataset((centres[labels] + noise) / 2**0.5, labels)


def curve(samples: int, seed: int, features: int = 8) -> TensorDataset:
    """Return numbers and a smooth function of them, with a little noise: a regression with targets (B, 1)."""
    weights = torch.randn(features, 1, generator=drawn(0))
    inputs = torch.randn(samples, features, generator=drawn(seed))
    noise = torch.randn(samples, 1, generator=drawn(seed + 1))
    return TensorDataset(inputs, torch.tanh(inputs @ weights) + 0.5 * inputs[:, :1] + 0.05 * noise)


def pictures(samples: int, seed: int, channels: int = 1) -> TensorDataset:
    """Return images (B, channels, 12, 12) of a pattern for each class with noise; mean about 0, deviation about 1."""
    coarse = torch.randn(CLASSES, channels, 4, 4, generator=drawn(0))
    patterns = functional.interpolate(coarse, size=SIZE, mode="bilinear")
    patterns = (patterns - patterns.mean()) / patterns.std()
    labels = torch.randint(CLASSES, (samples,), generator=drawn(seed))
    noise = torch.randn(samples, channels, SIZE, SIZE, generator=drawn(seed + 1))
    return TensorDataset((patterns[labels] + 0.7 * noise) / 1.22, labels)


def in_unit_range(data: TensorDataset) -> TensorDataset:
    """Return a dataset with its inputs squeezed into 0 to 1, as a network that ends in a sigmoid rebuilds them."""
    inputs, labels = data.tensors
    return TensorDataset(inputs.sigmoid(), labels)


def views(samples: int, seed: int, features: int = 16) -> TensorDataset:
    """Return two noisy looks at each sample, as contrastive learning has them, and the sample's class."""
    inputs, labels = rows(samples, seed, features).tensors
    first, second = (inputs + 0.3 * torch.randn(inputs.shape, generator=drawn(seed + k)) for k in (2, 3))
    return TensorDataset(first, second, labels)


def molecules(samples: int, seed: int, atoms: int = 5) -> TensorDataset:
    """Return positions (B, atoms, 3) and the energy (B, 1) of springs between all pairs."""
    positions = torch.randn(samples, atoms, 3, generator=drawn(seed))
    energy = (distances(positions) - 2).square().mean(1, keepdim=True)
    return TensorDataset(positions, energy)


def distances(positions: Tensor) -> Tensor:
    """Return the distances of all pairs: (B, atoms, 3) -> (B, pairs)."""
    first, second = torch.triu_indices(positions.shape[1], positions.shape[1], 1)
    return (positions[:, first] - positions[:, second]).square().sum(-1).add(1e-6).sqrt()


def texts(samples: int, seed: int, length: int = 12, words: int = 20) -> TensorDataset:
    """Return rows of tokens in which each one follows from the one before, but for one in ten."""
    follows = torch.randperm(words, generator=drawn(0))
    tokens = torch.randint(words, (samples, length), generator=drawn(seed))
    kept = torch.rand(samples, length, generator=drawn(seed + 1)) < 0.9
    for place in range(1, length):
        tokens[:, place] = torch.where(kept[:, place], follows[tokens[:, place - 1]], tokens[:, place])
    return TensorDataset(tokens)
