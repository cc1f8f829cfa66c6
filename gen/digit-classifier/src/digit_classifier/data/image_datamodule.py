"""The DataModule that every image classification dataset that fits in memory shares."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from pydantic import FiniteFloat, PositiveInt
from torch.utils.data import DataLoader, Dataset, Sampler
from training_config.errors import ConfigError
from training_runs.sampling.batches_on_device import CPU, Where, cutting_device

from .image_files import read_fitted
from .in_memory import InMemoryDataset
from .labelled_images import Batch, Deviation, LabelledImages


class ImageDataModule(LabelledImages):
    """Splits a dataset that fits in memory; a subclass says where it comes from.

    Args:
        val_size: images taken from the training part for validation.
        split_seed: chooses which ones. Apart from `seed`, so that runs with different seeds share a validation set.
        mean: of each channel, of pixels scaled to 0..1.
        std: likewise.
        device: where batches are cut; see `cutting_device`.
        **images: as of `LabelledImages`. Without workers it is fastest, since a batch is one indexing operation.
    """

    def __init__(
        self,
        val_size: PositiveInt,
        split_seed: int,
        mean: Sequence[FiniteFloat],
        std: Sequence[Deviation],
        device: Where = "auto",
        **images: Any,
    ) -> None:
        super().__init__(**images)
        self.val_size = val_size
        self.split_seed = split_seed
        self.device: Where = device
        self.normalise_by(mean, std)
        self.load_image = partial(read_fitted, image_shape=self.image_shape)

    @abstractmethod
    def load(self, train: bool) -> Batch:
        """Return all images (N, C, H, W) uint8 and labels (N,) int64 of the official training or test part."""

    def setup(self, stage: str) -> None:
        super().setup(stage)
        if stage in ("fit", "validate") and not hasattr(self, "train_set"):
            images, labels = self._checked(self.load(train=True))
            world_size, _ = self._ranks()
            if not world_size <= self.val_size <= len(labels) - world_size:  # an image for every rank
                raise ConfigError(
                    f"data.val_size={self.val_size} must lie between {world_size} and {len(labels) - world_size}: "
                    f"{self.source} has {len(labels)} training images"
                )
            order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(self.split_seed))
            train, val = order[self.val_size :], order[: self.val_size]
            self.train_set = InMemoryDataset(images[train], labels[train])
            self.val_set = InMemoryDataset(images[val], labels[val])
        if stage in ("test", "predict") and not hasattr(self, "test_set"):
            self.test_set = InMemoryDataset(*self._checked(self.load(train=False)))

    def _loader(self, dataset: Dataset, sampler: Sampler | None) -> DataLoader[Batch]:
        if isinstance(dataset, InMemoryDataset):  # not the files of a prediction
            device = cutting_device(self.device, dataset.images.nbytes, self.num_workers, self.trainer)
            dataset = dataset if device == CPU else dataset.on(device)
        return super()._loader(dataset, sampler)

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
