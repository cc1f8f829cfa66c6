import os
import sys
from functools import partial

import pytest
from PIL import Image
from training_runs.errors import DataError

GREY = (1, 28, 28)


@pytest.fixture
def read_digit(root):
    from digit_classifier.data.digit_photos import read_digit

    return read_digit


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
def test_pipe_is_refused_and_not_waited_for(read_digit, tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(DataError, match=r"a\.png is no file; remove it"):
        read_digit(tmp_path / "a.png", GREY)


def test_image_that_would_unpack_to_gigabytes_is_refused(read_digit, tmp_path):
    Image.new("1", (12_000, 12_000)).save(tmp_path / "bomb.png")  # 18 KB
    with pytest.raises(DataError, match=r"bomb\.png is not a readable image \(Image size \(144000000 pixels\)"):
        read_digit(tmp_path / "bomb.png", GREY)


def test_name_that_would_move_the_cursor_is_shown_with_escapes(read_digit, tmp_path):
    (tmp_path / "\x1b[2J.png").write_text("no picture", encoding="utf-8")
    with pytest.raises(DataError, match=r"\\x1b\[2J\.png is not a readable image") as refused:
        read_digit(tmp_path / "\x1b[2J.png", GREY)
    assert str(refused.value).isprintable()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse to write such a name")
def test_name_that_is_no_utf8_is_read(read_digit, tmp_path):
    from digit_classifier.data.image_files import ImageFiles, find_images

    folder = os.fsencode(tmp_path)
    Image.new("L", (20, 20), 255).save(tmp_path / "a.png")
    os.rename(folder + b"/a.png", folder + b"/\xff.png")
    [path] = find_images(tmp_path)
    assert os.fsencode(path.name) == b"\xff.png"
    [[image, _]] = ImageFiles([path], partial(read_digit, image_shape=GREY))
    assert image.shape == GREY
