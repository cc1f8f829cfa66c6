"""What DataModules of labelled images share: batches, their normalisation on the device, the state in a checkpoint."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from pytorch_lightning import LightningDataModule
from pytorch_lightning.overrides.distributed import UnrepeatedDistributedSampler
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler
from training_config.errors import ConfigError
from training_runs.errors import DataError
from training_runs.sampling.epoch_sampler import EpochSampler
from training_runs.sampling.workers import outlive_stop

from ..image_shape import ImageShape
from .image_files import ImageFiles
from .in_memory import InMemoryDataset, pass_through

Batch = tuple[Tensor, Tensor]
Deviation = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class LabelledImages(LightningDataModule):
    """Batches and normalises `train_set`, `val_set` and `test_set`, which a subclass makes in `setup`.

    Their samples are (image (C, H, W) uint8, label), and they have `labels` (N,). Batches leave the loaders as uint8
    and are normalised after the transfer, on the device:
    (B, C, H, W) uint8 -> (B, C, H, W) float32 with mean 0 and standard deviation 1 over the training set.

    A subclass sets `load_image` too: what makes of an image file (C, H, W) uint8 as its batches hold it. Prediction
    reads every file by that, in loader processes; so it pickles.

    Args:
        batch_size: samples a step on each device.
        num_workers: loader processes.
        seed: orders the training batches, together with the epoch number and nothing else; None draws one.
        image_shape: (C, H, W), checked against the data.
        num_classes: labels must lie in 0..num_classes - 1.
        class_names: what figures and tables call the classes.
    """

    load_image: Callable[[Path], Tensor]

    def __init__(
        self,
        batch_size: PositiveInt,
        num_workers: NonNegativeInt,
        seed: NonNegativeInt | None,
        image_shape: ImageShape,
        num_classes: PositiveInt,
        class_names: Sequence[str],
    ) -> None:
        super().__init__()
        if len(image_shape) != 3 or min(image_shape) < 1:
            raise ConfigError(f"data.image_shape={list(image_shape)} must be [channels, height, width]")
        if len(class_names) != num_classes:
            raise ConfigError(f"data.class_names has {len(class_names)} names but data.num_classes={num_classes}")
        if len(set(class_names)) < len(class_names):
            raise ConfigError(
                f"data.class_names={list(class_names)} must be different names: tables tell classes by them"
            )
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.seed = torch.seed() % 2**32 if seed is None else seed
        self.image_shape = tuple(image_shape)
        self.num_classes = num_classes
        self.class_names = list(class_names)
        self.predict_files: Sequence[Path] | None = None

    @property
    @abstractmethod
    def source(self) -> str:
        """The name of the data that is really used, for the run's record."""

    def normalise_by(self, mean: Sequence[float], std: Sequence[float]) -> None:
        """Set mean and standard deviation of each channel, of pixels scaled to 0..1."""
        if not len(mean) == len(std) == self.image_shape[0]:
            raise ConfigError(
                f"data.mean={list(mean)} and data.std={list(std)} must have a value for each channel of "
                f"data.image_shape={list(self.image_shape)}"
            )
        if min(std) <= 0:
            raise ConfigError(f"data.std={list(std)} must be greater than 0: pixels are divided by it")
        # (C, 1, 1), in units of uint8 pixels
        self.mean = torch.tensor(mean).view(-1, 1, 1) * 255
        self.std = torch.tensor(std).view(-1, 1, 1) * 255

    def setup(self, stage: str) -> None:
        if self.trainer is not None:  # a seed that was drawn must be one for all ranks
            self.seed = self.trainer.strategy.broadcast(self.seed)

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
        return self._evaluation_loader(ImageFiles(self.predict_files, [0] * len(self.predict_files), self.load_image))

    def state_dict(self) -> dict[str, Any]:
        return {"seed": self.seed, "source": self.source}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if state_dict["source"] != self.source:
            raise DataError(
                f"this run was trained on {state_dict['source']}, and its data is now {self.source}: "
                "put back what it had, or start a new run"
            )
        self.seed = state_dict["seed"]

    def on_after_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        images, labels = batch
        self.mean, self.std = self.mean.to(images.device), self.std.to(images.device)
        return (images.float() - self.mean) / self.std, labels

    def _evaluation_loader(self, dataset: Dataset) -> DataLoader[Batch]:
        # Unrepeated: the plain sampler repeats samples until all ranks have as many, and metrics count them twice.
        world_size, rank = self._ranks()
        sampler = UnrepeatedDistributedSampler(dataset, world_size, rank, shuffle=False) if world_size > 1 else None
        return self._loader(dataset, sampler)

    def _loader(self, dataset: Dataset, sampler: Sampler | None) -> DataLoader[Batch]:
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

    def _ranks(self) -> tuple[int, int]:
        return (1, 0) if self.trainer is None else (self.trainer.world_size, self.trainer.global_rank)
