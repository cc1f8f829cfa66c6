"""Layers whose weights get a shape, and numbers, from the first batch."""

from itertools import chain

from torch import nn
from torch.nn.parameter import is_lazy


def has_lazy(module: nn.Module) -> bool:
    """Whether a layer still waits for its first batch."""
    return any(map(is_lazy, chain(module.parameters(), module.buffers())))
