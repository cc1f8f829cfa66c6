import pytest
import torch
from PIL import Image, ImageDraw, ImageOps
from torch import Tensor

from digit_classifier.data.digit_photos import read_digit
from digit_classifier.data.image_files import SUFFIXES, find_images, read_fitted

GREY, COLOUR = (1, 28, 28), (3, 32, 32)


@pytest.fixture
def seven() -> Image.Image:
    """A large seven, white on black, in a corner of the sheet."""
    image = Image.new("L", (200, 160))
    ImageDraw.Draw(image).line([(20, 20), (80, 20), (40, 110)], fill=255, width=10)
    return image


@pytest.fixture
def read(tmp_path):
    """`read(image, name)`: the content of one image file, as the network gets it."""

    def run(image: Image.Image, name: str = "a.png", image_shape=GREY) -> Tensor:
        image.save(tmp_path / name)
        return (read_digit if image_shape == GREY else read_fitted)(tmp_path / name, image_shape)

    return run


def test_drawing_is_scaled_and_centred_as_mnist_does(read, seven):
    content = read(seven)
    assert (content.dtype, content.shape) == (torch.uint8, GREY)
    rows, columns = (content[0].amax(dim=dim).nonzero().flatten() for dim in (1, 0))
    assert max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1 == 20
    weights = content[0].double() / content.sum()
    centre = [(weights.sum(dim=dim) * torch.arange(28)).sum().item() for dim in (1, 0)]
    assert centre == pytest.approx([13.5, 13.5], abs=0.51)  # whole pixels


def test_both_ways_round_give_the_same_image(read, seven):
    assert torch.equal(read(seven), read(ImageOps.invert(seven)))


def test_place_on_the_sheet_does_not_matter(read, seven):
    moved = Image.new("L", (300, 300))
    moved.paste(seven, (90, 130))
    assert torch.equal(read(seven), read(moved))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_kind_of_the_file_does_not_matter(read, seven, mode):
    two_tone = seven.point(lambda value: 255 * (value > 127))
    assert torch.equal(read(two_tone.convert(mode)), read(two_tone))


def test_blank_sheet_is_black(read):
    assert not read(Image.new("L", (40, 40), 255)).any()


def test_colour_images_keep_their_colours(read):
    content = read(Image.new("RGB", (90, 60), (10, 20, 30)), image_shape=COLOUR)
    assert content.shape == COLOUR
    assert content.flatten(1).unique(dim=1).flatten().tolist() == [10, 20, 30]


def test_image_of_the_dataset_stays_as_it_is(read):
    digit = torch.randint(0, 100, GREY, dtype=torch.uint8)
    assert torch.equal(read(Image.fromarray(digit[0].numpy())), digit)


def test_images_come_sorted_from_folders_below_too_and_other_files_are_left_alone(tmp_path, seven):
    (tmp_path / "more").mkdir()
    for name in ("b.png", "a.JPG", "more/c.gif", ".hidden.png"):
        seven.save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("seven", encoding="utf-8")
    assert [path.name for path in find_images(tmp_path)] == ["a.JPG", "b.png", "c.gif"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_listed_format_is_read(read, seven, suffix):
    assert read(seven, f"a{suffix}").any()


@pytest.mark.parametrize("size", [(1, 5000), (5000, 1), (1, 1)])
def test_long_thin_drawing_is_a_line(read, size):
    image = Image.new("L", (size[0] + 20, size[1] + 20))
    image.paste(255, (10, 10, 10 + size[0], 10 + size[1]))
    assert read(image).shape == GREY
    assert read(Image.new("L", size, 255)).shape == GREY
