"""Where dropout is at work in a step, also where no module does it."""

from typing import Any

from torch import Tensor, nn

from training_checklist.engines.tracer import Call, Listener
from training_checklist.finding import Place

DROPOUTS = {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"}


class DropoutCalls(Listener):
    """Keeps the places of dropouts, and what made their results, by autograd's graph: that holds the graph."""

    def __init__(self) -> None:
        self.places: list[Place] = []
        self.made: list[tuple[Any, Place]] = []

    def before(self, call: Call) -> None:
        if is_at_work(call) and call.place not in self.places:
            self.places.append(call.place)

    def after(self, call: Call) -> None:
        if isinstance(call.result, Tensor) and call.result.grad_fn is not None and is_at_work(call):
            self.made.append((call.result.grad_fn, call.place))


class WithoutDropout(Listener):
    """Gives back a copy of what dropout is given, also where no module does it, but for attention.

    Attributes:
        places: where.
    """

    def __init__(self) -> None:
        self.places: list[Place] = []

    def after(self, call: Call) -> None:
        if call.name in DROPOUTS and is_at_work(call) and not call.argument("inplace", 3, False):
            call.result = call.argument("input", 0).clone()
            if call.place not in self.places:
                self.places.append(call.place)


def as_copy(module: nn.Module, inputs: Any, result: Tensor) -> Tensor:
    """Return what a dropout that is off hands on, which the code may change in place: when on, it has made a copy."""
    return result.clone()


def is_at_work(call: Call) -> bool:
    if call.name == "scaled_dot_product_attention":
        return bool(call.argument("dropout_p", 4, 0))
    drops = call.name in DROPOUTS and call.is_functional and call.argument("p", 1, 0.5)
    return bool(drops and call.argument("training", 2, True))
