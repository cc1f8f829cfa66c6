"""Image files of others: found, opened without trusting them, brought to the shape that a network takes."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2.functional import pil_to_tensor
from training_runs.errors import DataError

from ..file_names import printable

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


class ImageFiles(Dataset[tuple[Tensor, int]]):
    """Images for prediction: each is read from its file when it is asked for, by `read`, and has the label 0."""

    def __init__(self, paths: Sequence[Path], read: Callable[[Path], Tensor]) -> None:
        self.paths, self.read = paths, read

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.read(self.paths[index]), 0


def find_images(folder: Path) -> list[Path]:
    """Return the image files in `folder` and below it, sorted; names that begin with a dot are left out."""
    found = [path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.is_dir()]
    return sorted(path for path in found if not any(name.startswith(".") for name in path.relative_to(folder).parts))


@contextmanager
def opened(path: Path) -> Iterator[Image.Image]:
    """Open an image, upright as its camera says; what is wrong with it, here or while it is used, names the file.

    Raises:
        DataError: no such file, a pipe, damaged content, or more pixels than Pillow takes without a warning.
    """
    if not path.is_file():  # to open a pipe would wait for whoever writes to it
        raise DataError(f"{printable(str(path))} is no file; remove it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                ImageOps.exif_transpose(image, in_place=True)
                yield image
    except Exception as error:  # of many kinds: the file may hold anything
        reason = printable(str(error).replace(repr(str(path)), repr(path.name)).replace(str(path), path.name))
        raise DataError(
            f"{printable(str(path))} is not a readable image ({reason or type(error).__name__}); remove it"
        ) from error


def in_channels(image: Image.Image, channels: int) -> Image.Image:
    """Return the image in grey (1 channel) or colour (3), 8 bits each; scans of 16 bits are scaled to them."""
    if image.mode.startswith("I;16"):  # convert would clip
        image = Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    return image.convert({1: "L", 3: "RGB"}[channels])


def read_fitted(path: Path, image_shape: Sequence[int]) -> Tensor:
    """Return (C, H, W) uint8, cut to the shape's proportions and scaled; of an image of that size, its very pixels."""
    channels, height, width = image_shape
    with opened(path) as image:
        return pil_to_tensor(ImageOps.fit(in_channels(image, channels), (width, height)))
