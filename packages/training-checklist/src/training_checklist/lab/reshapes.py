"""Reshapes that give a tensor the shape of its transpose."""

from weakref import WeakValueDictionary

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


class Skews:
    """Tensors that were made longer by one column, and what is viewed of them.

    Read in rows of another length, each of their rows is moved by one more than the row before: so relative positions
    are aligned (Dai et al. 2019, Transformer-XL, appendix B), with a reshape that is meant.
    """

    def __init__(self) -> None:
        self.longer: WeakValueDictionary[int, Tensor] = WeakValueDictionary()

    def see(self, call: Call) -> None:
        result = call.result
        if call.name in ("pad", "cat", "concat") and isinstance(result, Tensor):
            columns = {(*given.shape[:-1], given.shape[-1] + 1) for given in call.given if given.ndim}
            if tuple(result.shape) in columns:
                self.longer[id(result)] = result

    def moves_rows(self, call: Call) -> bool:
        """Whether a reshape is of such a tensor, or of a view of it."""
        given = call.given[0]
        whole = given if given._base is None else given._base
        return self.longer.get(id(whole)) is whole
