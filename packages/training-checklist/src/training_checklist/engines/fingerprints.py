"""What tensors were to the last bit, in a few bytes."""

import zlib
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from training_checklist.engines.batches import as_real, tensors
from training_checklist.engines.rows import Row
from training_checklist.engines.tracer import Call, Listener
from training_checklist.lightning import LightningModule, Trainer

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes
WEIGHTS = 65521  # the largest prime below 2 ** 16: positions count with different weights, which do not overflow


def digest(tensor: Tensor) -> str:
    """Return a checksum of a tensor's bytes, "" of one that has none."""
    try:
        plain = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
        if not plain.numel():  # what NumPy has seen cannot be resized any more, as an empty out= is
            return f"{0:08x}"
        return f"{zlib.crc32(bytes_in(plain)):08x}"
    except (RuntimeError, NotImplementedError, TypeError, ValueError):  # fake, lazy, inside vmap
        return ""


def norm(tensor: Tensor) -> float:
    """Return the norm of a tensor of any type, 0 of one that has no values."""
    if not digest(tensor):
        return 0.0
    dense = tensor.detach().to_dense()
    return float((dense.abs() if dense.is_complex() else dense.float()).norm())


def digest_of(batch: Any) -> str:
    """Return a digest of all tensors, arrays, numbers and texts in a batch."""
    total = blake2b(digest_size=8)
    for tensor in tensors(batch):
        total.update(digest(tensor).encode())
    for leaf in tree_leaves(batch):
        if isinstance(leaf, numpy.ndarray):
            total.update(leaf.tobytes())
        elif isinstance(leaf, (str, bytes, int, float, numpy.generic)):
            total.update(repr(leaf).encode())
    return total.hexdigest()


def checksums(found: Mapping[str, Tensor]) -> dict[str, int]:
    """Return a number for each tensor that changes with any of its bits; computed where the tensors are."""
    numbers = {}
    for name, tensor in found.items():
        real = as_real(tensor.detach())
        bits = real.contiguous().reshape(-1).view(INTEGERS[real.element_size()]).long()
        numbers[name] = (bits * (torch.arange(len(bits), device=bits.device) % WEIGHTS + 1)).sum()
    if not numbers:
        return {}
    # One transfer from the device for all of them.
    return dict(zip(numbers, torch.stack(list(numbers.values())).tolist(), strict=True))


def rows_of(kind: str, step: int, found: Mapping[str, Tensor]) -> list[Row]:
    return [Row(kind, step, name, digest(tensor), norm(tensor)) for name, tensor in found.items()]


def named(pl_module: LightningModule) -> dict[str, Tensor]:
    """Return all parameters and all buffers that a checkpoint holds; metrics keep none there."""
    state = {name: value for name, value in pl_module.state_dict().items() if isinstance(value, Tensor)}
    return dict(pl_module.named_parameters()) | state


def state_of(trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
    """Return what a resumed run must find again: weights, what optimizers keep, learning rates and the step."""
    state: dict[str, Any] = {name: digest(tensor) for name, tensor in named(pl_module).items()}
    names = {id(weight): name for name, weight in pl_module.named_parameters()}
    for optimizer in trainer.optimizers:
        state |= {f"lr of group {index}": group["lr"] for index, group in enumerate(optimizer.param_groups)}
        for weight, kept in optimizer.state.items():
            name = names.get(id(weight), "a parameter of another module")
            state |= {f"{key} of {name}": digest(value) for key, value in kept.items() if isinstance(value, Tensor)}
    return state | {"global_step": trainer.global_step}


class Operations(Listener):
    """Fingerprints the results of all operations.

    Attributes:
        step: that runs now.
        rows: what became of each result, with its place.
    """

    def __init__(self) -> None:
        self.step = 0
        self.rows: list[Row] = []

    def after(self, call: Call) -> None:
        if "empty" in call.name:  # whatever lay in memory
            return
        self.rows += [Row("operation", self.step, call.name, digest(made), 0.0, call.place) for made in call.made]


def bytes_in(tensor: Tensor) -> numpy.ndarray:
    """Return the bytes of a tensor of any type: NumPy lacks some of torch's."""
    flat = tensor.cpu().contiguous().reshape(-1)
    if flat.stride(0) != 1:  # of a single number, any stride is contiguous
        flat = flat.clone(memory_format=torch.contiguous_format)
    return flat.view(torch.uint8).numpy()
