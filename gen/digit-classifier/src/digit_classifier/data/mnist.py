"""MNIST and the datasets in its format: from disk, from the network, or the sample that ships with the project."""

import logging
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from filelock import FileLock, Timeout
from training_config.errors import ConfigError
from training_runs.errors import DataError

from .digit_photos import read_digit
from .idx import find_idx, read_idx
from .image_datamodule import ImageDataModule
from .labelled_images import Batch

log = logging.getLogger(__name__)

PARTS = {True: "train", False: "t10k"}
SAMPLE_VAL_SIZE = 500  # of the sample's 4,000 training images


def read_part(folder: Path, train: bool) -> Batch:
    """Return images (N, 1, H, W) uint8 and labels (N,) int64 from IDX files.

    Raises:
        DataError: a file is missing or damaged; the message names it.
    """
    arrays = []
    for content in ("images-idx3-ubyte", "labels-idx1-ubyte"):
        name = f"{PARTS[train]}-{content}"
        path = find_idx(folder, name)
        if path is None:
            raise DataError(f"{folder} has neither {name} nor {name}.gz")
        arrays.append(read_idx(path))
    images, labels = arrays
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise DataError(
            f"{folder}: {PARTS[train]} images of shape {tuple(images.shape)} do not belong to labels of shape "
            f"{tuple(labels.shape)}; delete both files and run again to download them anew"
        )
    return images.unsqueeze(1), labels.long()


def read_sample(train: bool) -> Batch:
    """Return one part of the bundled 5,000 MNIST digits."""
    return read_part(Path(str(files(__package__) / "sample")), train)


class DigitDataModule(ImageDataModule):
    """Images in MNIST's format. Files of others are read as drawings or photographs of digits."""

    def __init__(self, **image: Any) -> None:
        super().__init__(**image)
        if self.image_shape[0] == 1:
            self.load_image = partial(read_digit, image_shape=self.image_shape)


class SampleDataModule(DigitDataModule):
    """5,000 real MNIST digits that ship with the project: 4,000 for training, 1,000 for testing."""

    source = "mnist_sample"

    def load(self, train: bool) -> Batch:
        return read_sample(train)


class MNISTDataModule(DigitDataModule):
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

    def __init__(
        self, dataset: str, data_dir: str, download_timeout: float, fallback: str | None, **image: Any
    ) -> None:
        super().__init__(**image)
        if fallback not in (None, "mnist_sample"):
            raise ConfigError(f"data.fallback={fallback!r} must be mnist_sample or null")
        self.dataset = dataset
        self.data_dir = Path(data_dir)
        self.download_timeout = download_timeout
        self.fallback = fallback
        self._gave_up = False
        self.folder: Path | None = None  # where the files were found; None until setup, and on the fallback

    @property
    def source(self) -> str:
        if self.folder is None and self.fallback is not None:
            return f"{self.fallback} (instead of {self.dataset})"
        return self.dataset

    def prepare_data(self) -> None:
        if self._find() is not None or self._gave_up:
            return
        problem = self._download()
        if problem is None:
            return
        self._gave_up = True  # fit and test both prepare: ask and warn once
        missing = f"{self.dataset} is not in {self.data_dir} and cannot be downloaded ({problem})"
        if self.fallback is None:
            raise DataError(f"{missing}; put its four IDX files into {self._raw()}, or set data=mnist_sample")
        log.warning(
            "%s.\n    TRAINING ON THE BUNDLED SAMPLE OF 5,000 DIGITS INSTEAD: its scores are no %s scores.\n"
            "    Put the four IDX files into %s to train on the real data; data.fallback=null makes this an error.",
            missing,
            self.dataset,
            self._raw(),
        )

    def setup(self, stage: str) -> None:
        self.folder = self._find()
        if self.folder is None:
            self.val_size = SAMPLE_VAL_SIZE
        super().setup(stage)

    def load(self, train: bool) -> Batch:
        return read_sample(train) if self.folder is None else read_part(self.folder, train)

    def _raw(self) -> Path:
        return self.data_dir / self.dataset / "raw"

    def _find(self) -> Path | None:
        """Return the folder that has all four files, or None."""
        names = [f"{part}-{kind}" for part in PARTS.values() for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")]
        for folder in (self._raw(), self.data_dir):
            if all(find_idx(folder, name) for name in names):
                return folder
        return None

    def _download(self) -> str | None:
        """Download through torchvision; return what went wrong in one line, or None."""
        from torchvision import datasets  # a second of import that only a download needs

        dataset = getattr(datasets, self.dataset, None)
        if not (isinstance(dataset, type) and issubclass(dataset, datasets.MNIST)):
            raise ConfigError(f"data.dataset={self.dataset} must be MNIST, FashionMNIST or KMNIST")
        url = dataset.mirrors[0]
        if not answers(url, self.download_timeout):
            return f"no answer from {url} within {self.download_timeout:g} s"
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            with self._only_one() as draft:
                if self._find() is None:
                    with socket_timeout(self.download_timeout):
                        dataset(str(draft), download=True)
                    self._raw().mkdir(parents=True, exist_ok=True)
                    for path in (draft / self.dataset / "raw").iterdir():
                        path.replace(self._raw() / path.name)
        except (RuntimeError, OSError) as error:
            return str(error).splitlines()[-1]
        return None

    @contextmanager
    def _only_one(self) -> Iterator[Path]:
        """Wait until no other process downloads, then have an empty folder beside the data: no half file is found."""
        lock = FileLock(self.data_dir / f".{self.dataset}.lock")  # ends with the process, whatever ends that
        try:
            lock.acquire(blocking=False)
        except Timeout:
            log.warning("Waiting for another process, which downloads %s to %s.", self.dataset, self.data_dir)
            lock.acquire()
        draft = self.data_dir / f".{self.dataset}.draft"
        try:
            shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
            yield draft
        finally:
            shutil.rmtree(draft, ignore_errors=True)
            lock.release()


def answers(url: str, seconds: float) -> bool:
    """Tell within `seconds` whether a server answers for `url`; name resolution alone can hang for minutes."""
    reached = threading.Event()

    def ask() -> None:
        try:
            urlopen(Request(url, method="HEAD"), timeout=seconds).close()
        except HTTPError:
            reached.set()  # a refusal is an answer too
        except OSError:
            return
        reached.set()

    question = threading.Thread(target=ask, daemon=True)
    question.start()
    question.join(seconds)
    return reached.is_set()


@contextmanager
def socket_timeout(seconds: float):
    """Make every socket opened inside give up after `seconds` of silence (torchvision's download sets no limit)."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
