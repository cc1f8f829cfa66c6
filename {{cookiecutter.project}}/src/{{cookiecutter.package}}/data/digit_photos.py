"""Drawings and photographs of digits, made to look like MNIST's."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from .image_files import in_channels, opened


def read_digit(path: Path, image_shape: Sequence[int]) -> Tensor:
    """Return (1, H, W) uint8, white on black, the drawing as MNIST places it.

    A grey image of the very shape that is white on black is one of the dataset, and stays as it is. Any other is
    fitted and centred, whatever its size and whichever way round.
    """
    _, height, width = image_shape
    with opened(path) as image:
        is_digit = image.mode == "L" and image.size == (width, height) and not is_black_on_white(image)
        digit = image if is_digit else centred(image, (width, height))
        return torch.from_numpy(np.array(digit)).unsqueeze(0)


def is_black_on_white(picture: Image.Image) -> bool:
    pixels = np.asarray(picture)
    return bool(np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).mean() > 127)


def centred(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Return the drawing white on black.

    MNIST scales a digit to fit 20x20 of the 28x28 pixels and centres its mass (LeCun et al. 1998).
    """
    if "A" in image.getbands() or "transparency" in image.info:  # a drawing on nothing: take white paper
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    picture = ImageOps.autocontrast(in_channels(image, 1))
    if is_black_on_white(picture):
        picture = ImageOps.invert(picture)
    box = picture.point(lambda value: 255 * (value > 50)).getbbox()
    canvas = Image.new("L", size)
    if box is not None:
        drawing = picture.crop(box)
        scale = min(20 / 28 * side / drawn for side, drawn in zip(size, drawing.size, strict=True))
        drawing = drawing.resize([max(1, round(side * scale)) for side in drawing.size])  # of a long thin one a line
        canvas.paste(drawing, corner(drawing, size))
    return canvas


def corner(drawing: Image.Image, size: tuple[int, int]) -> tuple[int, int]:
    """Return where the drawing begins, for its mass to be in the middle; never off the canvas, however lopsided."""
    weights = np.asarray(drawing, dtype=np.float64) + 1e-9  # of one too thin for its size nothing may be left
    places = []
    for axis, (side, drawn) in enumerate(zip(size, drawing.size, strict=True)):
        mass = weights.sum(axis=axis) @ np.arange(drawn) / weights.sum()
        places.append(int(np.clip(round(side / 2 - 0.5 - mass), 0, side - drawn)))
    return places[0], places[1]
