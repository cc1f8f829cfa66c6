import pytest
import torch
from PIL import Image, ImageDraw, ImageOps
from torch import Tensor

from {{ cookiecutter.package }}.errors import ConfigError
from {{ cookiecutter.package }}.evaluation.own_images import SUFFIXES, read_images

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
        _, [content] = read_images(tmp_path, image_shape)
        return content

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


def test_photograph_is_turned_as_its_camera_says(read, seven, tmp_path):
    upright = read(seven)
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: to be turned by 90 degrees clockwise
    seven.rotate(90, expand=True).save(tmp_path / "a.png", exif=exif)
    _, [turned] = read_images(tmp_path, GREY)
    assert torch.equal(turned, upright)


def test_blank_sheet_is_black(read):
    assert not read(Image.new("L", (40, 40), 255)).any()


def test_colour_images_keep_their_colours(read):
    content = read(Image.new("RGB", (90, 60), (10, 20, 30)), image_shape=COLOUR)
    assert content.shape == COLOUR
    assert content.flatten(1).unique(dim=1).flatten().tolist() == [10, 20, 30]


def test_images_come_sorted_by_name_and_other_files_are_left_alone(tmp_path, seven):
    for name in ("b.png", "a.JPG", "c.gif"):
        seven.save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("seven", encoding="utf-8")
    paths, images = read_images(tmp_path, GREY)
    assert [path.name for path in paths] == ["a.JPG", "b.png", "c.gif"]
    assert images.shape == (3, *GREY)


@pytest.mark.parametrize("suffix", sorted(SUFFIXES))
def test_every_listed_format_is_read(read, seven, suffix):
    assert read(seven, f"a{suffix}").any()


def test_file_that_is_no_image_is_an_error_that_names_it(tmp_path):
    (tmp_path / "a.png").write_text("not an image", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"a\.png is not a readable image .*; remove it"):
        read_images(tmp_path, GREY)


def test_image_cut_short_is_an_error_that_names_it(tmp_path, seven):
    path = tmp_path / "a.png"
    seven.save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 24, 5):  # the last bytes are check sums and the mark of the end
        path.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match=r"a\.png is not a readable image"):
            read_images(tmp_path, GREY)


def test_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"predict=.*nowhere is not a folder; name one with images"):
        read_images(tmp_path / "nowhere", GREY)


def test_folder_without_images_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"predict=.* holds no image; put .*\.png"):
        read_images(tmp_path, GREY)
