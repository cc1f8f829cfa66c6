"""Reader for MNIST's IDX files, gzipped or not."""

import gzip
import math
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from training_runs.errors import DataError

UNSIGNED_BYTE = 8  # the type code of an IDX header; the MNIST family has no other


def read_idx(path: Path) -> Tensor:
    """Return the file's array as uint8, whole or not at all.

    The header is two zero bytes, a type code, the number of dimensions n, and n big-endian 32-bit sizes
    (format: http://yann.lecun.com/exdb/mnist).

    Raises:
        DataError: the file is truncated, corrupt or of another format; the message names it.
    """
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, gzip.zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}); delete it and run again to download it anew") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != UNSIGNED_BYTE:
        raise DataError(f"{path} is not an IDX file of bytes; delete it and run again to download it anew")
    start = 4 + 4 * raw[3]
    if len(raw) < start:
        raise DataError(f"{path} ends within its header; delete it and run again to download it anew")
    shape = np.frombuffer(raw[4:start], dtype=">u4").tolist()
    if len(raw) - start != math.prod(shape):
        raise DataError(
            f"{path} holds {len(raw) - start:,} bytes of data but its header announces {math.prod(shape):,} "
            f"{tuple(shape)}; delete it and run again to download it anew"
        )
    return torch.from_numpy(np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(shape).copy())


def find_idx(folder: Path, name: str) -> Path | None:
    """Return the file `name` in `folder`, unpacked or gzipped, or None."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
