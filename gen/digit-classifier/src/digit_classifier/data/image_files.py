"""Image files of others: found, opened without trusting them, brought to the shape that a network takes."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2.functional import pil_to_tensor
from training_runs.errors import DataError

from ..file_names import printable

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


class UnreadableImage(DataError):
    """A file that should be an image. From a loader process too its message is one line: torch puts the process's
    traceback before it."""

    def __init__(self, message: str) -> None:
        super().__init__(message.rpartition(f"{type(self).__name__}: ")[2].strip())


class ImageFiles(Dataset[tuple[Tensor, int]]):
    """Images that are read from their files when they are asked for, and their labels.

    Args:
        paths: of N files.
        labels: N class indices.
        read: makes (C, H, W) uint8 of a path.
        root: the images are called by their paths within it.
    """

    def __init__(
        self, paths: Sequence[Path], labels: Sequence[int], read: Callable[[Path], Tensor], root: Path = Path()
    ) -> None:
        # One array, not a list: processes that fork go on sharing its memory.
        self.encoded = np.array([os.fsencode(path) for path in paths])
        self.labels = torch.tensor(labels, dtype=torch.int64)
        self.read = read
        self.root = root

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.read(self.path(index)), int(self.labels[index])

    def path(self, index: int) -> Path:
        return Path(os.fsdecode(self.encoded[index]))

    @property
    def names(self) -> list[str]:
        return [Path(os.path.relpath(os.fsdecode(path), self.root)).as_posix() for path in self.encoded]


def find_images(folder: Path) -> list[Path]:
    """Return the image files in `folder` and below it, sorted; names that begin with a dot are left out."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.is_dir()]
    return sorted(path for path in found if not any(name.startswith(".") for name in path.relative_to(folder).parts))


@contextmanager
def opened(path: Path, content: bytes | None = None) -> Iterator[Image.Image]:
    """Open an image, upright as its camera says; what is wrong with it, here or while it is used, names the file.

    Args:
        path: of the file.
        content: of the file, where it is at hand.

    Raises:
        UnreadableImage: no such file, a pipe, damaged content, or more pixels than Pillow takes without a warning.
    """
    try:
        if content is None and not path.is_file():  # to open a pipe would wait for whoever writes to it
            raise UnreadableImage(f"{printable(str(path))} is no file; remove it")
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path if content is None else BytesIO(content)) as image:
                ImageOps.exif_transpose(image, in_place=True)
                yield image
    except UnreadableImage:
        raise
    except Exception as error:  # of many kinds: the file may hold anything
        reason = printable(str(error).replace(repr(str(path)), repr(path.name)).replace(str(path), path.name))
        raise UnreadableImage(
            f"{printable(str(path))} is not a readable image ({reason or type(error).__name__}); remove it"
        ) from error


def in_channels(image: Image.Image, channels: int) -> Image.Image:
    """Return the image in grey (1 channel) or colour (3), 8 bits each; scans of 16 bits are scaled to them."""
    if image.mode.startswith("I;16"):  # convert would clip
        image = Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    return image.convert({1: "L", 3: "RGB"}[channels])


def as_tensor(image: Image.Image) -> Tensor:
    """Return (C, H, W) uint8."""
    return pil_to_tensor(image)


def read_fitted(path: Path, image_shape: Sequence[int]) -> Tensor:
    """Return (C, H, W) uint8, cut to the shape's proportions and scaled; of an image of that size, its very pixels."""
    channels, height, width = image_shape
    with opened(path) as image:
        return as_tensor(ImageOps.fit(in_channels(image, channels), (width, height)))
