"""Reshapes that give a tensor the shape of its transpose."""

from torch import Tensor

from training_checklist.engines.tracer import Call
from training_checklist.lab.shapes import Reshape, Shape

RESHAPES = {"reshape", "view", "view_as", "reshape_as"}


def to_transpose(call: Call) -> Reshape | None:
    """Return the reshape, in the project's own code, whose result has the axes of what is given in another order."""
    if call.name not in RESHAPES or not call.given or not isinstance(call.result, Tensor):
        return None
    before, now = tuple(call.given[0].shape), tuple(call.result.shape)
    if not exchanges_axes(before, now) or not call.is_own:
        return None
    return Reshape(call.name, before, now, call.place)


def exchanges_axes(before: Shape, now: Shape) -> bool:
    """Whether a shape has the sizes of another one in another order. Axes of 1 can be anywhere without harm."""
    one, other = ([size for size in shape if size != 1] for shape in (before, now))
    return one != other and sorted(one) == sorted(other) and 0 not in one
