"""Image files of one's own, beyond plain drawings: deep, transparent, turned, damaged."""

import pytest
import torch
from PIL import Image, ImageDraw, ImageOps
from torch import Tensor
from training_runs.errors import DataError


@pytest.fixture
def read_digit(root):
    from digit_classifier.data.digit_photos import read_digit

    return read_digit


@pytest.fixture
def seven() -> Image.Image:
    """A large seven, white on black, in a corner of the sheet."""
    image = Image.new("L", (200, 160))
    ImageDraw.Draw(image).line([(20, 20), (80, 20), (40, 110)], fill=255, width=10)
    return image


@pytest.fixture
def read(read_digit, tmp_path):
    """`read(image)`: the content of one image file, as the network gets it."""

    def run(image: Image.Image) -> Tensor:
        image.save(tmp_path / "a.png")
        return read_digit(tmp_path / "a.png", (1, 28, 28))

    return run


@pytest.mark.parametrize("paper", [0.1, 0.5, 0.9])
def test_scan_of_sixteen_bits_is_read_in_its_own_range(read, seven, paper):
    ink = torch.tensor(list(seven.tobytes())).view(160, 200) > 127
    levels = torch.where(ink, 0.05, paper) * 65535
    deep = Image.fromarray(levels.to(torch.uint16).numpy())
    flat = Image.fromarray((~ink).to(torch.uint8).numpy() * 255)
    assert torch.equal(read(deep), read(flat))


def test_drawing_on_nothing_is_a_drawing_on_white_paper(read, seven):
    black = Image.new("L", seven.size)
    transparent = Image.merge("LA", [black, seven])
    assert torch.equal(read(transparent), read(ImageOps.invert(seven)))


def test_photograph_is_turned_as_its_camera_says(read_digit, read, seven, tmp_path):
    upright = read(seven)
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: to be turned by 90 degrees clockwise
    seven.rotate(90, expand=True).save(tmp_path / "a.png", exif=exif)
    assert torch.equal(read_digit(tmp_path / "a.png", (1, 28, 28)), upright)


def test_image_cut_short_is_an_error_that_names_it(read_digit, tmp_path, seven):
    path = tmp_path / "a.png"
    seven.save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 24, 5):  # the last bytes are check sums and the mark of the end
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"a\.png is not a readable image"):
            read_digit(path, (1, 28, 28))
