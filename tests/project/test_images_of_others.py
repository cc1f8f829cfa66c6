import os
import sys

import pytest
from PIL import Image
from training_config.errors import ConfigError

GREY = (1, 28, 28)


@pytest.fixture
def read_images(root):
    from digit_classifier.evaluation.own_images import read_images

    return read_images


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
def test_pipe_is_refused_and_not_waited_for(read_images, tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ConfigError, match=r"a\.png is no file; remove it"):
        read_images(tmp_path, GREY)


def test_image_that_would_unpack_to_gigabytes_is_refused(read_images, tmp_path):
    Image.new("1", (12_000, 12_000)).save(tmp_path / "bomb.png")  # 18 KB
    with pytest.raises(ConfigError, match=r"bomb\.png is not a readable image \(Image size \(144000000 pixels\)"):
        read_images(tmp_path, GREY)


def test_name_that_would_move_the_cursor_is_shown_with_escapes(read_images, tmp_path):
    (tmp_path / "\x1b[2J.png").write_text("no picture", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"\\x1b\[2J\.png is not a readable image") as refused:
        read_images(tmp_path, GREY)
    assert str(refused.value).isprintable()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse to write such a name")
def test_name_that_is_no_utf8_is_read(read_images, tmp_path):
    folder = os.fsencode(tmp_path)
    Image.new("L", (20, 20), 255).save(tmp_path / "a.png")
    os.rename(folder + b"/a.png", folder + b"/\xff.png")
    [path], _ = read_images(tmp_path, GREY)
    assert os.fsencode(path.name) == b"\xff.png"
