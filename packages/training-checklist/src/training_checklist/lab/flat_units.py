"""Units whose activation function is flat for all that they see."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._C import _functorch as functorch

from training_checklist.engines.tracer import Call, Listener
from training_checklist.finding import Place

# Where the slope is exactly 0 in FP32, by the function's value.
FLAT: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": lambda value: value == 0,
    "tanh": lambda value: value.abs() == 1,
    "sigmoid": lambda value: (value == 0) | (value == 1),
}


@dataclass
class ActivationCall:
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
        self.calls: list[ActivationCall] = []
        self._next = 0

    def start_step(self) -> None:
        self._next = 0

    def after(self, call: Call) -> None:
        name = call.name.rstrip("_")
        value = call.result
        if (
            name not in FLAT
            or not isinstance(value, Tensor)
            or not value.requires_grad
            or value.ndim < 2
            or not value.numel()
        ):
            return
        if functorch.maybe_current_level() is not None:  # within torch.func, where nothing may be added up outside
            return
        if value.dtype not in (torch.float32, torch.float64) and name != "relu":  # 16 bits round to 1 far earlier
            return
        sloped = ~FLAT[name](value.detach())
        # (B, C), (B, C, ...) of convolutions; of three dimensions either may be the channels.
        alive = {dim: sloped.movedim(dim, 0).flatten(1).any(1) for dim in ((1, 2) if value.ndim == 3 else (1,))}
        if self._next == len(self.calls):
            self.calls.append(
                ActivationCall(name, call.place, {dim: torch.zeros_like(units) for dim, units in alive.items()})
            )
        seen = self.calls[self._next]
        self._next += 1
        for dim, units in alive.items():
            if dim in seen.alive and len(units) == len(seen.alive[dim]) and seen.name == name:
                seen.alive[dim] |= units
            else:  # another width or another call: no unit of its own
                seen.alive.pop(dim, None)
        seen.rows += value.numel() // value.shape[1]
