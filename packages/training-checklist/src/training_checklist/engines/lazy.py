"""Layers whose weights get a shape, and numbers, from the first batch."""

from collections.abc import Iterable, Iterator
from itertools import chain, filterfalse

from torch import Tensor, nn
from torch.nn.parameter import is_lazy


def has_lazy(module: nn.Module) -> bool:
    """Whether a layer still waits for its first batch."""
    return any(map(is_lazy, chain(module.parameters(), module.buffers())))


def initialized(tensors: Iterable[Tensor]) -> Iterator[Tensor]:
    """Leave out those that still wait for their first batch."""
    return filterfalse(is_lazy, tensors)
