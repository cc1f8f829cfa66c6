"""Units whose activation function is flat for all that they see, and layers of batch normalisation that count twice."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.gradients import Activations, NormInputs, Units
from training_checklist.finding import Place

# Where the slope is exactly 0 in FP32, by the function's value.
FLAT: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda value: value == 0,
    "tanh": lambda value: value.abs() == 1,
    "sigmoid": lambda value: (value == 0) | (value == 1),
}


@dataclass
class Seen:
    """One call of an activation function, the same in each step.

    Args:
        alive: which units had a slope, by the dimension that they lie along; there are two where either may be it.
    """

    name: str
    place: Place
    alive: dict[int, Tensor]
    rows: int = 0


class FlatUnits(Listener):
    """Counts the units that have had no slope in any step so far."""

    def __init__(self) -> None:
        self.calls: list[Seen] = []
        self._next = 0

    def start_step(self) -> None:
        self._next = 0

    def after(self, call: Call) -> None:
        name = call.name.rstrip("_")
        value = call.result
        if name not in FLAT or not isinstance(value, Tensor) or not value.requires_grad or value.ndim < 2:
            return
        if value.dtype not in (torch.float32, torch.float64) and name != "relu":  # 16 bits round to 1 far earlier
            return
        sloped = ~FLAT[name](value.detach())
        # (B, C), (B, C, ...) of convolutions; of three dimensions either may be the channels.
        alive = {dim: sloped.movedim(dim, 0).flatten(1).any(1) for dim in ((1, 2) if value.ndim == 3 else (1,))}
        if self._next == len(self.calls):
            self.calls.append(Seen(name, call.place, {dim: torch.zeros_like(units) for dim, units in alive.items()}))
        seen = self.calls[self._next]
        self._next += 1
        for dim, units in alive.items():
            if dim in seen.alive and len(units) == len(seen.alive[dim]) and seen.name == name:
                seen.alive[dim] |= units
            else:  # another width or another call: no unit of its own
                seen.alive.pop(dim, None)
        seen.rows += value.numel() // value.shape[1]

    def evidence(self) -> Activations:
        found = []
        for seen in self.calls:
            if seen.alive:
                units = max(seen.alive.values(), key=lambda units: float(units.float().mean()))
                found.append(Units(seen.name, seen.place, int((~units).sum()), len(units), seen.rows))
        return Activations(found)


class BatchNorms(Listener):
    """Keeps the inputs of batch normalisation in the mode of training; they hold the graph."""

    def __init__(self) -> None:
        self.inputs: dict[int, list[tuple[Tensor, Place]]] = {}

    def before(self, call: Call) -> None:
        if call.name != "batch_norm" or not call.is_functional or not call.argument("training", 5, False):
            return
        mean, value = call.argument("running_mean", 1), call.argument("input", 0)
        if isinstance(mean, Tensor):
            self.inputs.setdefault(id(mean), []).append((value.detach(), call.place))

    def evidence(self) -> NormInputs:
        twice = []
        for (first, _), *later in self.inputs.values():
            twice += [place for value, place in later if first.shape == value.shape and torch.equal(first, value)]
        return NormInputs(len(self.inputs), twice)
