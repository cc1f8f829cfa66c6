"""Drawings and photographs of digits, made to look like MNIST's."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from .image_files import as_tensor, opened


def read_digit(path: Path, image_shape: Sequence[int]) -> Tensor:
    """Return (1, H, W) uint8, white on black, the drawing as MNIST places it.

    A grey image of the very shape that is white on black is one of the dataset, and stays as it is. Any other is
    fitted and centred, whatever its size and whichever way round.
    """
    _, height, width = image_shape
    with opened(path) as image:
        if image.mode == "L" and image.size == (width, height) and not is_black_on_white(image):
            return as_tensor(image)
        return centred(image, (width, height))


def is_black_on_white(picture: Image.Image) -> bool:
    pixels = np.asarray(picture)
    return bool(np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).mean() > 127)


def centred(image: Image.Image, size: tuple[int, int]) -> Tensor:
    """Return (1, H, W) uint8, white on black.

    MNIST scales a digit to fit 20x20 of the 28x28 pixels and centres its mass (LeCun et al. 1998).
    """
    if "A" in image.getbands() or "transparency" in image.info:  # a drawing on nothing: take white paper
        paper = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(paper, image.convert("RGBA"))
    if image.mode.startswith(("I", "F")):  # more than 8 bits: convert("L") would clip, not scale
        levels = np.asarray(image, dtype=np.float64)
        image = Image.fromarray(((levels - levels.min()) / max(np.ptp(levels), 1) * 255).astype(np.uint8))
    picture = ImageOps.autocontrast(image.convert("L"))
    if is_black_on_white(picture):
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
