"""Linear layers that follow one another with nothing between them: the two are one."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.network import LinearPair
from training_checklist.experiments.trace.made_by import behind_views
from training_checklist.finding import Place

# What changes no value, but for leaving some out; dropout multiplies each by a number that nothing has learnt.
PASSES = {
    "dropout",
    "reshape",
    "view",
    "flatten",
    "squeeze",
    "unsqueeze",
    "contiguous",
    "transpose",
    "permute",
    "getitem",
}


@dataclass
class Made:
    """What a linear layer has returned."""

    node: Any  # of autograd; held, lest another gets its id
    sizes: tuple[int, int]  # of its input and output
    learns: bool
    place: Place
    readers: int = 0


class LinearPairs(Listener):
    """Keeps the pairs of linear layers of which the second alone reads what the first returns."""

    def __init__(self) -> None:
        self.made: dict[int, Made] = {}
        self.pairs: list[tuple[Made, Made]] = []
        self.nodes: list[Any] = []  # held, too

    def after(self, call: Call) -> None:
        name = call.name.strip("_")
        if not isinstance(call.result, Tensor) or call.result.grad_fn is None:
            return
        origins = [self._origin(each) for each in call.given]
        if name in PASSES:
            if origins and origins[0] is not None:
                node = behind_views(call.result.grad_fn)
                self.made.setdefault(id(node), origins[0])
                self.nodes.append(node)
            return
        for origin in origins:
            if origin is not None:
                origin.readers += 1
        if name == "linear":
            weight = call.argument("weight", 1)
            node = behind_views(call.result.grad_fn)
            made = Made(node, (weight.shape[1], weight.shape[0]), weight.requires_grad, call.place)
            self.made[id(node)] = made
            if origins and origins[0] is not None:
                self.pairs.append((origins[0], made))

    def _origin(self, tensor: Tensor) -> Made | None:
        node = None if tensor.grad_fn is None else behind_views(tensor.grad_fn)
        return self.made.get(id(node))

    @property
    def evidence(self) -> list[LinearPair]:
        return [
            LinearPair(*first.sizes, second.sizes[1], second.place, str(first.place.module))
            for first, second in self.pairs
            if first.readers == 1 and first.learns and second.learns
        ]
