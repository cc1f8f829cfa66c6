"""Terms of a loss that have no gradient, though they were computed from what the network answers."""

from torch import Tensor

from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.network import DeadTerm

ADDS = {"add", "radd", "iadd", "sub", "rsub", "isub", "sum"}
CUTS = {"detach", "detach_", "__get__"}  # the last one is `.data`


class DeadTermsOf(Listener):
    """Follows what is computed from detached answers, until one number of it is added to one with a gradient."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], DeadTerm] = {}  # by file and line
        self._cut: dict[int, Tensor] = {}  # held, lest another tensor gets the id

    def after(self, call: Call) -> None:
        given = call.given
        cut = [tensor for tensor in given if id(tensor) in self._cut]
        if call.name.strip("_") in ADDS and cut and call.name not in CUTS:
            self._compare(call, given, cut)
        learns = any(tensor.requires_grad for tensor in given)
        starts = call.name in CUTS and learns
        if starts or (cut and not learns):
            self._cut.update((id(made), made) for made in call.made if not made.requires_grad)

    def _compare(self, call: Call, given: list[Tensor], cut: list[Tensor]) -> None:
        learning = [tensor for tensor in given if tensor.requires_grad and tensor.ndim == 0]
        term = next((tensor for tensor in cut if tensor.ndim == 0 and not tensor.requires_grad), None)
        if learning and term is not None and float(term) != 0 and call.place.file:
            place = call.place
            self.found.setdefault((place.file, place.line), DeadTerm(call.name.strip("_"), float(term), place))
