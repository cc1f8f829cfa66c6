"""Functions of a loss that take any number, and are given what a sigmoid or a softmax has put between 0 and 1."""

from typing import Any

from torch import Tensor

from training_checklist.engines.graph import operation
from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.network import Squash
from training_checklist.experiments.trace.made_by import VIEWS

TAKES_LOGITS = {"logsigmoid", "log_sigmoid", "log_softmax", "softplus"}
SQUASHES = {"Sigmoid": "sigmoid", "Softmax": "softmax"}
KEEPS_UNITS = {*VIEWS, "Sub", "Neg", "Cat", "Stack"}  # differences of probabilities are no logits either


class Squashes(Listener):
    """Keeps such calls, once a line."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Squash] = {}

    def after(self, call: Call) -> None:
        name = call.name.strip("_")
        if name not in TAKES_LOGITS or not call.given or not isinstance(call.result, Tensor):
            return
        made_by = squashed_by(call.given[0].grad_fn)
        if made_by:
            place = call.place
            self.found.setdefault((place.file, place.line), Squash(name, made_by, place))


def squashed_by(node: Any) -> str:
    """Return "sigmoid" where all that leads to a node comes out of one, "" where anything else does."""
    if node is None:
        return ""
    if operation(node) in SQUASHES:
        return SQUASHES[operation(node)]
    if operation(node) not in KEEPS_UNITS:
        return ""
    found = {squashed_by(origin) for origin, _ in node.next_functions if origin is not None}
    return found.pop() if len(found) == 1 else ""
