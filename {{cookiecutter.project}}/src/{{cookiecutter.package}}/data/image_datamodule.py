"""The DataModule of images that fit in memory. A dataset of your own is a subclass with one method, `load`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt
from pytorch_lightning import LightningDataModule
from pytorch_lightning.overrides.distributed import UnrepeatedDistributedSampler
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from training_config.errors import ConfigError
from training_runs.errors import DataError
from training_runs.sampling.batches_on_device import CPU, Where, cutting_device
from training_runs.sampling.epoch_sampler import EpochSampler
from training_runs.sampling.folds import split
from training_runs.sampling.workers import outlive_stop

from ..image_shape import ImageShape
from .image_files import ImageFiles, read_fitted
from .in_memory import InMemoryDataset, pass_through

Batch = tuple[Tensor, Tensor]
Deviation = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ImageDataModule(LightningDataModule):
    """Splits, batches and normalises the images that `load` returns.

    Batches leave the loaders as uint8 and are normalised after the transfer, on the device:
    (B, C, H, W) uint8 -> (B, C, H, W) float32 with mean 0 and standard deviation 1 over the training set.

    Args:
        batch_size: samples a step on each device.
        num_workers: loader processes. Without any it is fastest, since a batch is one indexing operation.
        seed: orders the training batches, together with the epoch number and nothing else; None draws one.
        image_shape: (C, H, W), checked against the data.
        num_classes: labels must lie in 0..num_classes - 1.
        class_names: what figures and tables call the classes.
        mean: of each channel, of pixels scaled to 0..1.
        std: likewise.
        val_size: images taken from the training part for validation.
        split_seed: chooses which ones. Apart from `seed`, so that runs with different seeds share a validation set.
        fold: instead of `val_size` images one of so many `folds` validates.
        device: where batches are cut; see `cutting_device`.
    """

    source: str  # the name of the data that is really used, for the run's record
    read_file: Callable[..., Tensor] = staticmethod(read_fitted)  # for `predict=`, in image_shape

    def __init__(
        self,
        batch_size: PositiveInt,
        num_workers: NonNegativeInt,
        seed: NonNegativeInt | None,
        image_shape: ImageShape,
        num_classes: PositiveInt,
        class_names: Sequence[str],
        mean: Sequence[FiniteFloat],
        std: Sequence[Deviation],
        val_size: PositiveInt,
        split_seed: int,
        device: Where = "auto",
        fold: NonNegativeInt | None = None,
        folds: PositiveInt = 5,
    ) -> None:
        super().__init__()
        if len(class_names) != num_classes:
            raise ConfigError(f"data.class_names has {len(class_names)} names but data.num_classes={num_classes}")
        if len(set(class_names)) < len(class_names):
            raise ConfigError(
                f"data.class_names={list(class_names)} must be different names: tables tell classes by them"
            )
        if not len(mean) == len(std) == image_shape[0]:
            raise ConfigError(
                f"data.mean={list(mean)} and data.std={list(std)} must have a value for each channel of "
                f"data.image_shape={list(image_shape)}"
            )
        self.batch_size, self.num_workers, self.device = batch_size, num_workers, device
        self.seed = torch.seed() % 2**32 if seed is None else seed
        self.image_shape, self.num_classes, self.class_names = tuple(image_shape), num_classes, list(class_names)
        # (C, 1, 1), in units of uint8 pixels
        self.mean = torch.tensor(mean).view(-1, 1, 1) * 255
        self.std = torch.tensor(std).view(-1, 1, 1) * 255
        self.val_size, self.split_seed, self.fold, self.folds = val_size, split_seed, fold, folds
        self.predict_files: Sequence[Path] | None = None  # eval.py predict=... sets it

    def load(self, train: bool) -> Batch:
        """Return all images (N, C, H, W) uint8 and labels (N,) int64 of the official training or test part."""
        raise NotImplementedError

    @property
    def load_image(self) -> Callable[[Path], Tensor]:
        """What makes (C, H, W) uint8 of an image file, in loader processes: so it pickles."""
        return partial(self.read_file, image_shape=self.image_shape)

    def setup(self, stage: str) -> None:
        self._agree_on_seed()
        if stage in ("fit", "validate") and not hasattr(self, "train_set"):
            images, labels = self._checked(self.load(train=True))
            world_size, _ = self._ranks()
            if not world_size <= self.val_size <= len(labels) - world_size:  # an image for every rank
                raise ConfigError(
                    f"data.val_size={self.val_size} must lie between {world_size} and {len(labels) - world_size}: "
                    f"{self.source} has {len(labels)} training images"
                )
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(self.split_seed))
            train, val = split(order, self.val_size, self.fold, self.folds)
            self.train_set = InMemoryDataset(images[train], labels[train])
            self.val_set = InMemoryDataset(images[val], labels[val])
        if stage in ("test", "predict") and not hasattr(self, "test_set"):
            self.test_set = InMemoryDataset(*self._checked(self.load(train=False)))

    def train_dataloader(self) -> DataLoader[Batch]:
        sampler = EpochSampler(self.train_set, self.batch_size, self.seed, self.trainer)
        return self._loader(self.train_set, sampler)

    def val_dataloader(self) -> DataLoader[Batch]:
        return self._evaluation_loader(self.val_set)

    def test_dataloader(self) -> DataLoader[Batch]:
        return self._evaluation_loader(self.test_set)

    def predict_dataloader(self) -> DataLoader[Batch]:
        """Batches of the images in `predict_files`, where the caller has set them, or of the test set."""
        if self.predict_files is None:
            return self.test_dataloader()
        return self._evaluation_loader(ImageFiles(self.predict_files, self.load_image))

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        images, labels = batch
        self.mean, self.std = self.mean.to(images.device), self.std.to(images.device)
        return (images.float() - self.mean) / self.std, labels

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed, "source": self.source}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict["source"] != self.source:
            raise DataError(
                f"this run was trained on {state_dict['source']}, and its data is now {self.source}: "
                "put back what it had, or start a new run"
            )
        self.seed = state_dict["seed"]

    def _checked(self, data: Batch) -> Batch:
        images, labels = data
        if tuple(images.shape[1:]) != self.image_shape:
            expected, found = list(self.image_shape), list(images.shape[1:])
            raise ConfigError(f"data.image_shape={expected} but the images of {self.source} are {found}")
        if labels.min() < 0 or labels.max() >= self.num_classes:
            raise ConfigError(
                f"data.num_classes={self.num_classes} but {self.source} has labels "
                f"from {int(labels.min())} to {int(labels.max())}"
            )
        return images, labels

    def _evaluation_loader(self, dataset: Dataset) -> DataLoader[Batch]:
        # Unrepeated: the plain sampler repeats samples until all ranks have as many, and metrics count them twice.
        world_size, rank = self._ranks()
        sampler = UnrepeatedDistributedSampler(dataset, world_size, rank, shuffle=False) if world_size > 1 else None
        return self._loader(dataset, sampler)

    def _loader(self, dataset: Dataset, sampler: Sampler | None) -> DataLoader[Batch]:
        if isinstance(dataset, InMemoryDataset):
            device = cutting_device(self.device, dataset.images.nbytes, self.num_workers, self.trainer)
            dataset = dataset if device == CPU else dataset.on(device)
        on_gpu = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        return DataLoader(
            dataset,
            batch_size=self.batch_size,
            sampler=sampler,
            num_workers=self.num_workers,
            collate_fn=pass_through if isinstance(dataset, InMemoryDataset) else None,
            worker_init_fn=outlive_stop,
            pin_memory=on_gpu and not (isinstance(dataset, InMemoryDataset) and dataset.images.is_cuda),
            persistent_workers=self.num_workers > 0,
            # A generator of its own: else every new iterator draws from the global one and shifts dropout.
            generator=torch.Generator().manual_seed(self.seed),
        )

    def _agree_on_seed(self) -> None:
        if self.trainer is not None:  # one that was drawn must be the same on all ranks
            self.seed = self.trainer.strategy.broadcast(self.seed)

    def _ranks(self) -> tuple[int, int]:
        return (1, 0) if self.trainer is None else (self.trainer.world_size, self.trainer.global_rank)
