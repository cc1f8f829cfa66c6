"""Reshapes that give a tensor the shape of its transpose."""

from torch import Tensor

from training_checklist.engines.own_code import is_own
from training_checklist.engines.places import caller
from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.network import Reshape, Shape

RESHAPES = {"reshape", "view", "view_as", "reshape_as"}


class ReshapesToTranspose(Listener):
    """Keeps the reshapes in the project's own code whose result has the axes of what is given in another order."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Reshape] = {}  # by file and line

    def after(self, call: Call) -> None:
        if call.name not in RESHAPES or not call.given or not isinstance(call.result, Tensor):
            return
        before, now = tuple(call.given[0].shape), tuple(call.result.shape)
        if exchanges_axes(before, now) and is_own(caller()):
            place = call.place
            self.found.setdefault((place.file, place.line), Reshape(call.name, before, now, place))


def exchanges_axes(before: Shape, now: Shape) -> bool:
    """Whether a shape has the sizes of another one in another order. Axes of 1 can be anywhere without harm."""
    one, other = ([size for size in shape if size != 1] for shape in (before, now))
    return one != other and sorted(one) == sorted(other) and 0 not in one
