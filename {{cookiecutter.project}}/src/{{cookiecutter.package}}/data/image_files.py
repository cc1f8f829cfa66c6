"""A user's own image files, made to look like the images that the network was trained on."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from training_config.errors import ConfigError

from .file_names import printable

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"}


def read_images(folder: Path, image_shape: Sequence[int]) -> tuple[list[Path], Tensor]:
    """Return the image files in `folder`, sorted, and their content as (N, C, H, W) uint8.

    Grey images become white on black with the drawing fitted and centred as MNIST's digits are, whatever their
    size and whichever way round; colour images are fitted to the shape as they are.

    Raises:
        ConfigError: no such folder, no image in it, or a file that is not an image, or a larger one than Pillow takes
            without a warning.
    """
    where = printable(str(folder))
    if not folder.is_dir():
        raise ConfigError(f"predict={where} is not a folder; name one with images ({', '.join(sorted(SUFFIXES))})")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise ConfigError(f"predict={where} holds no image; put {', '.join(sorted(SUFFIXES))} files there")
    strange = [path for path in paths if not path.is_file()]  # to open a pipe would wait for whoever writes to it
    if strange:
        raise ConfigError(f"predict={where}: {printable(strange[0].name)} is no file; remove it")
    channels, height, width = image_shape
    images = []
    for path in paths:
        try:
            bombs = warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning)
            with bombs, Image.open(path) as image:
                images.append(grey(image, (width, height)) if channels == 1 else colour(image, (width, height)))
        except Exception as error:  # of many kinds: the file may hold anything
            reason = printable(str(error).replace(repr(str(path)), repr(path.name)).replace(str(path), path.name))
            name = printable(path.name)
            raise ConfigError(f"predict={where}: {name} is not a readable image ({reason}); remove it") from error
    return paths, torch.stack(images)


def grey(image: Image.Image, size: tuple[int, int]) -> Tensor:
    """Return (1, H, W) uint8, white on black, the drawing as MNIST places it.

    MNIST scales a digit to fit 20x20 of the 28x28 pixels and centres its mass (LeCun et al. 1998).
    """
    if "A" in image.getbands() or "transparency" in image.info:  # a drawing on nothing: take white paper
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    if image.mode.startswith(("I", "F")):  # more than 8 bits: convert("L") would clip, not scale
        levels = np.asarray(image, dtype=np.float64)
        image = Image.fromarray(((levels - levels.min()) / max(np.ptp(levels), 1) * 255).astype(np.uint8))
    picture = ImageOps.autocontrast(ImageOps.exif_transpose(image).convert("L"))
    pixels = np.asarray(picture)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    if border.mean() > 127:
        picture = ImageOps.invert(picture)
    box = picture.point(lambda value: 255 * (value > 50)).getbbox()
    canvas = Image.new("L", size)
    if box is not None:
        drawing = contain(picture.crop(box), tuple(round(side * 20 / 28) for side in size))
        canvas.paste(drawing, _offset_to_centre_of_mass(drawing, size))
    return torch.from_numpy(np.array(canvas)).unsqueeze(0)


def contain(drawing: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return a drawing scaled to the largest that fits; a long thin one, which Pillow makes nothing of, is a line."""
    fitted = ImageOps.contain(drawing, size)
    return fitted if all(fitted.size) else drawing.resize(tuple(max(1, side) for side in fitted.size))


def colour(image: Image.Image, size: tuple[int, int]) -> Tensor:
    """Return (3, H, W) uint8, cut to the shape's proportions and scaled."""
    picture = ImageOps.fit(ImageOps.exif_transpose(image).convert("RGB"), size)
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1)  # (H, W, 3) -> (3, H, W)


def _offset_to_centre_of_mass(drawing: Image.Image, size: tuple[int, int]) -> tuple[int, int]:
    weights = np.asarray(drawing, dtype=np.float64)
    rows, columns = np.indices(weights.shape)
    if not weights.any():  # it was too thin for the smaller size
        weights += 1
    mass = weights.sum()
    top = size[1] / 2 - 0.5 - (rows * weights).sum() / mass
    left = size[0] / 2 - 0.5 - (columns * weights).sum() / mass
    # Never off the canvas, however lopsided the drawing.
    return (
        int(np.clip(round(left), 0, size[0] - drawing.width)),
        int(np.clip(round(top), 0, size[1] - drawing.height)),
    )
