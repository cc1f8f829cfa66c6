"""Shapes of tensors: as texts, broadcast, and in another order. Nothing here imports torch."""

from dataclasses import dataclass
from itertools import zip_longest

from training_checklist.finding import NOWHERE, Place

Shape = tuple[int, ...]


def by(shape: Shape) -> str:
    """Return "64x1x28x28", or "scalar"."""
    return "x".join(map(str, shape)) or "scalar"


def broadcast(one: Shape, two: Shape) -> Shape | None:
    """Return the shape of an elementwise operation of two tensors, or None where there is none."""
    sizes = list(zip_longest(reversed(one), reversed(two), fillvalue=1))
    if any(mine != other and 1 not in (mine, other) for mine, other in sizes):
        return None
    return tuple(other if mine == 1 else mine for mine, other in reversed(sizes))


@dataclass
class Reshape:
    """A reshape whose result has the sizes of what is given in another order."""

    operation: str
    given: Shape
    result: Shape
    place: Place = NOWHERE

    @property
    def told(self) -> str:
        return f"{self.operation} gives {by(self.given)} the shape {by(self.result)}, the same axes in another order"
