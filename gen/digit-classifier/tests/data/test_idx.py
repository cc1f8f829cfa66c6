import re

import pytest
import torch
from training_runs.errors import DataError

from digit_classifier.data.idx import find_idx, read_idx

ARRAY = torch.arange(2 * 3 * 4, dtype=torch.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("name", ["images", "images.gz"])
@pytest.mark.parametrize("array", [ARRAY, torch.tensor([7, 0, 255], dtype=torch.uint8)])
def test_array_comes_back_as_it_was_written(write_idx, tmp_path, name, array):
    assert torch.equal(read_idx(write_idx(tmp_path / name, array)), array)


@pytest.mark.parametrize("name", ["images", "images.gz"])
def test_file_cut_anywhere_is_an_error_that_names_it(write_idx, tmp_path, name):
    path = write_idx(tmp_path / name, ARRAY)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=re.escape(str(path))):
            read_idx(path)


def test_file_with_bytes_to_spare_is_an_error_that_names_it(write_idx, tmp_path):
    path = write_idx(tmp_path / "images", ARRAY)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(DataError, match=re.escape(str(path))):
        read_idx(path)


def test_corrupt_gzip_is_an_error_that_names_it(write_idx, tmp_path):
    path = write_idx(tmp_path / "images.gz", ARRAY)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(str(path))):
        read_idx(path)


@pytest.mark.parametrize("content", [b"<html>404</html>", b"\0\0\x0d\x01\0\0\0\x01\0\0\0\0"], ids=["page", "floats"])
def test_file_of_another_format_is_an_error_that_names_it(tmp_path, content):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(f"{path} is not an IDX file of bytes")):
        read_idx(path)


def test_unpacked_file_is_found_before_the_gzipped_one(write_idx, tmp_path):
    assert find_idx(tmp_path, "images") is None
    gzipped = write_idx(tmp_path / "images.gz", ARRAY)
    assert find_idx(tmp_path, "images") == gzipped
    unpacked = write_idx(tmp_path / "images", ARRAY)
    assert find_idx(tmp_path, "images") == unpacked
