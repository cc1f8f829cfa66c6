"""The tensors of a batch, whatever it is made of: tuples, mappings, dataclasses, graphs, the project's own objects."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import SUPPORTED_NODES, tree_map_only

DEPTH = 6  # of containers in containers: deeper ones are rather a library's bookkeeping than a batch
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in a key such as str(dataset.loss), another one in each process
PLAIN = (str, bytes, int, float, complex, type(None), type, nn.Module)


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a container or an object is made of, each with what follows its name: "[0]", "['image']", ".x"."""
    if isinstance(value, Mapping):
        for index, (key, each) in enumerate(value.items()):
            yield f"[{ADDRESS.sub(f' {index}', repr(key))}]", each
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        yield from ((f".{name}", getattr(value, name)) for name in value._fields)
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{index}]", each) for index, each in enumerate(value))
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{each.name}", getattr(value, each.name, None)) for each in fields(value))
    elif not isinstance(value, PLAIN) and hasattr(value, "__dict__"):
        yield from ((f".{name}", each) for name, each in vars(value).items())


def leaves(batch: Any) -> dict[str, Tensor]:
    """Return the tensors of a batch that hold numbers, by their place: "batch[0]", "batch['image']", "batch.x".

    Without those that can be neither cut nor exchanged among samples: sparse and nested ones, and ones without entries.
    """
    return {place: leaf for place, leaf in all_leaves(batch).items() if holds_numbers(leaf)}


def all_leaves(batch: Any, path: str = "batch", depth: int = DEPTH) -> dict[str, Tensor]:
    """Return every tensor of a batch by its place."""
    if isinstance(batch, Tensor):
        return {path: batch}
    if isinstance(batch, PackedSequence):
        return {f"{path}.data": batch.data}  # the rest is how it is packed, which fits these numbers alone
    if depth == 0:
        return {}
    inside = (all_leaves(value, f"{path}{name}", depth - 1) for name, value in parts(batch))
    return {place: leaf for each in inside for place, leaf in each.items()}


def holds_numbers(tensor: Tensor) -> bool:
    return is_dense(tensor) and tensor.numel() > 0


def is_dense(tensor: Tensor) -> bool:
    """Whether rows can be taken of a tensor: it is neither sparse nor nested."""
    return tensor.layout is torch.strided and not tensor.is_nested


def tensors(value: Any, depth: int = DEPTH) -> Iterator[Tensor]:
    """Yield every tensor in a batch, an output, or the arguments of a call."""
    if isinstance(value, Tensor):
        yield value
    elif depth:
        for _, each in parts(value):
            yield from tensors(each, depth - 1)


def mapped(value: Any, change: Callable[[Tensor], Any]) -> Any:
    """Return a batch in containers of its own, with what `change` gives in the place of each tensor.

    A mapping that is more than its items, such as a TensorDict with its batch size and device, is made as it has told
    torch.utils._pytree: Lightning's way would make it of its items alone. A frozen dataclass is replaced.
    """
    kinds = (kind for kind in SUPPORTED_NODES if isinstance(kind, type) and issubclass(kind, Mapping))
    mappings = tuple(kind for kind in kinds if not issubclass(kind, dict))

    def changed(part: Any) -> Any:
        if isinstance(part, Tensor):
            return change(part)
        if isinstance(part, Frozen):
            own = {each.name: mapped(getattr(part, each.name), change) for each in fields(part) if each.init}
            return replace(part, **own)
        return tree_map_only(Tensor, change, part)

    return apply_to_collection(value, (Tensor, *mappings, Frozen), changed)


class IsFrozen(type):
    """Makes `isinstance` tell of every frozen dataclass."""

    def __instancecheck__(cls, value: Any) -> bool:
        return is_dataclass(value) and not isinstance(value, type) and value.__dataclass_params__.frozen


class Frozen(metaclass=IsFrozen):
    """Stands for all frozen dataclasses."""


def plain_lists(value: Any, size: int, depth: int = DEPTH) -> Iterator[Any]:
    """Yield the lists and arrays in a batch that hold one number, text or None for each sample."""
    if holds_plain(value, size):
        yield value
    elif depth:
        for _, each in parts(value):
            yield from plain_lists(each, size, depth - 1)


def holds_plain(value: Any, size: int) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim > 0 and len(value) == size
    kinds = (str, bytes, int, float, np.generic, type(None))
    return type(value) in (list, tuple) and len(value) == size and all(isinstance(each, kinds) for each in value)


def with_lists(batch: Any, size: int, change: Callable[[Any], Any]) -> Any:
    """Return a batch with other such lists and arrays, as far as they stand in dicts, lists and tuples."""
    if holds_plain(batch, size):
        return change(batch)
    if type(batch) is dict:
        return {key: with_lists(each, size, change) for key, each in batch.items()}
    return type(batch)(with_lists(each, size, change) for each in batch) if type(batch) in (list, tuple) else batch


def as_array(value: Any) -> np.ndarray:
    """Return what an array can be made of as one; a tensor may lie on any device."""
    return np.asarray(value.cpu() if isinstance(value, Tensor) else value)


def inside(place: str | None, prefix: str) -> str | None:
    """Return a place in a batch as one in the part of it that `prefix` names; None of what is not in there."""
    return f"batch{place.removeprefix(prefix)}" if place is not None and place.startswith(prefix) else None


def with_part(batch: Any, path: Sequence[Any], part: Any) -> Any:
    """Return a batch in containers of its own, with `part` where the keys and indices of `path` lead to."""
    if not path:
        return part
    key, *rest = path
    if isinstance(batch, dict):
        return batch | {key: with_part(batch[key], rest, part)}
    return [with_part(each, rest, part) if index == key else each for index, each in enumerate(batch)]


def batch_size(batch: Any) -> int | None:
    """Return the first dimension that all tensors of a batch share; None where they share none, as with graphs.

    Nor is it known of sparse and nested tensors, of which no rows can be taken.
    """
    if any(map(lists_samples, (batch, *(each for _, each in parts(batch))))):
        return None  # what its tensors share is their features
    found = [tensor for tensor in tensors(batch) if tensor.ndim]
    sizes = {len(tensor) for tensor in found} if all(map(is_dense, found)) else ()
    return sizes.pop() if len(sizes) == 1 else None


def lists_samples(value: Any) -> bool:
    """Whether samples stand beside each other as they are, as `collate_fn=list` leaves them: each has numbers alone."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, (list, tuple, Mapping)) for each in value):
        return False
    numbers = (part for each in value for _, part in parts(each))
    return any(isinstance(part, (int, float)) or (isinstance(part, Tensor) and not part.ndim) for part in numbers)


def is_whole(tensor: Tensor) -> bool:
    """Whether a tensor is of a type of whole numbers, or bool."""
    return not (tensor.is_floating_point() or tensor.is_complex())


def as_real(tensor: Tensor) -> Tensor:
    """Return a complex tensor as its real and imaginary parts, in a last dimension."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def same(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same numbers in the same order; NaN is as good as NaN."""
    if one.numel() != other.numel():
        return False
    return bool(torch.isclose(one.flatten().to(other.dtype), other.flatten(), 0, 0, equal_nan=True).all())
