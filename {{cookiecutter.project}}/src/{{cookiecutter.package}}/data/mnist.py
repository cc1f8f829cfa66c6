"""MNIST and the datasets in its format: from disk, from the network, or the sample that ships with the project."""

import logging
from importlib.resources import files
from pathlib import Path
from typing import Any

from training_config.errors import ConfigError
from training_runs.errors import DataError

from .digit_photos import read_digit
from .download import download
from .idx import find_idx, read_idx
from .image_datamodule import Batch, ImageDataModule

log = logging.getLogger(__name__)

PARTS = {True: "train", False: "t10k"}
CONTENTS = ("images-idx3-ubyte", "labels-idx1-ubyte")
SAMPLE_VAL_SIZE = 500  # of the sample's 4,000 training images


def read_part(folder: Path, train: bool) -> Batch:
    """Return images (N, 1, H, W) uint8 and labels (N,) int64 from IDX files.

    Raises:
        DataError: a file is missing or damaged; the message names it.
    """
    arrays = []
    for content in CONTENTS:
        name = f"{PARTS[train]}-{content}"
        path = find_idx(folder, name)
        if path is None:
            raise DataError(f"{folder} has neither {name} nor {name}.gz")
        arrays.append(read_idx(path))
    images, labels = arrays
    if images.ndim != 3 or labels.ndim != 1 or not len(images) == len(labels) > 0:
        raise DataError(
            f"{folder}: {PARTS[train]} images of shape {tuple(images.shape)} do not belong to labels of shape "
            f"{tuple(labels.shape)}; delete both files and run again to download them anew"
        )
    return images.unsqueeze(1), labels.long()


def read_sample(train: bool) -> Batch:
    """Return one part of the bundled 5,000 MNIST digits."""
    return read_part(Path(str(files(__package__) / "sample")), train)


class SampleDataModule(ImageDataModule):
    """5,000 real MNIST digits that ship with the project: 4,000 for training, 1,000 for testing."""

    source = "mnist_sample"
    read_file = staticmethod(read_digit)

    def load(self, train: bool) -> Batch:
        return read_sample(train)


class MNISTDataModule(ImageDataModule):
    """A dataset of the MNIST family with its official training and test parts.

    Args:
        dataset: a class of `torchvision.datasets` in MNIST's format: MNIST, FashionMNIST or KMNIST.
        data_dir: files are looked for in `<data_dir>/<dataset>/raw` (torchvision's layout), then in `data_dir`,
            gzipped or not; what is missing is downloaded to the first.
        download_timeout: seconds without an answer from the network after which the download is given up.
        fallback: "mnist_sample" to train on the bundled sample where the files are neither on disk nor
            downloadable, None to stop with an error.
        **image: as of `ImageDataModule`.
    """

    read_file = staticmethod(read_digit)

    def __init__(
        self, dataset: str, data_dir: str, download_timeout: float, fallback: str | None, **image: Any
    ) -> None:
        super().__init__(**image)
        if fallback not in (None, "mnist_sample"):
            raise ConfigError(f"data.fallback={fallback!r} must be mnist_sample or null")
        self.dataset, self.data_dir = dataset, Path(data_dir)
        self.download_timeout, self.fallback = download_timeout, fallback
        self._gave_up = False
        self.folder: Path | None = None  # where the files were found; None until setup, and on the fallback

    @property
    def source(self) -> str:
        stands_in = self.folder is None and self.fallback is not None
        return f"{self.fallback} (instead of {self.dataset})" if stands_in else self.dataset

    def prepare_data(self) -> None:
        if self._find() is not None or self._gave_up:
            return
        try:
            download(self.dataset, self.data_dir, self.download_timeout, lambda: self._find() is not None)
        except (RuntimeError, OSError) as error:
            self._give_up(str(error).splitlines()[-1])

    def setup(self, stage: str) -> None:
        self.folder = self._find()
        if self.folder is None:
            self.val_size = SAMPLE_VAL_SIZE
        super().setup(stage)

    def load(self, train: bool) -> Batch:
        return read_sample(train) if self.folder is None else read_part(self.folder, train)

    def _find(self) -> Path | None:
        """Return the folder that has all four files, or None."""
        names = [f"{part}-{content}" for part in PARTS.values() for content in CONTENTS]
        folders = (self.data_dir / self.dataset / "raw", self.data_dir)
        return next((folder for folder in folders if all(find_idx(folder, name) for name in names)), None)

    def _give_up(self, problem: str) -> None:
        self._gave_up = True  # fit and test both prepare: ask and warn once
        raw = self.data_dir / self.dataset / "raw"
        missing = f"{self.dataset} is not in {self.data_dir} and cannot be downloaded ({problem})"
        if self.fallback is None:
            raise DataError(f"{missing}; put its four IDX files into {raw}, or set data=mnist_sample")
        log.warning(
            "%s.\n    TRAINING ON THE BUNDLED SAMPLE OF 5,000 DIGITS INSTEAD: its scores are no %s scores.\n"
            "    Put the four IDX files into %s to train on the real data; data.fallback=null makes this an error.",
            missing,
            self.dataset,
            raw,
        )
