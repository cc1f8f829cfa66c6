import gzip
from pathlib import Path

import pytest
import torch
from torch import Tensor


def idx_bytes(array: Tensor) -> bytes:
    """An array of bytes in MNIST's format: magic number, sizes, data."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.to(torch.uint8).numpy().tobytes()


@pytest.fixture
def write_idx():
    """`write_idx(path, array)`: gzipped where the path says so."""

    def write(path: Path, array: Tensor) -> Path:
        content = idx_bytes(array)
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
        return path

    return write
