"""The scale of what enters a network, and what it looks like when normalisation went wrong."""

import math
from collections.abc import Sequence
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook

from training_checklist.engines.batches import tensors


class FirstLayer:
    """While it is entered, measures what goes into the first layer that takes the whole input of the batch."""

    def __init__(self, pl_module: nn.Module) -> None:
        self.paths = {id(module): path for path, module in pl_module.named_modules()}
        self.numel: int | None = None
        self.path, self.kind = "", ""
        self.count, self.total, self.squares = 0, 0.0, 0.0
        self.low, self.high = math.inf, -math.inf
        self.lowest = 0  # how many values are no greater than the least one of their batch

    def __enter__(self) -> None:
        self.done = False
        self._handle = register_module_forward_pre_hook(self._look)

    def __exit__(self, *error: object) -> None:
        self._handle.remove()

    @property
    def mean(self) -> float:
        return self.total / self.count

    @property
    def std(self) -> float:
        return max(self.squares / self.count - self.mean**2, 0.0) ** 0.5

    def _look(self, module: nn.Module, inputs: Any) -> None:
        if self.done or id(module) not in self.paths or not any(True for _ in module.parameters(recurse=False)):
            return
        first = next(tensors(inputs), None)
        if first is None or first.numel() != self.numel:
            return
        self.done = True
        self.path = f"{self.paths[id(module)]} ({type(module).__name__})"
        self.kind = "norm" if "norm" in type(module).__name__.lower() else "layer"
        if first.is_floating_point() and first.isfinite().all():
            values = first.detach().cpu().double()  # not every device has float64
            self.count += values.numel()
            self.total += float(values.sum())
            self.squares += float(values.square().sum())
            self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
            self.lowest += int((values == values.min()).sum())


def scaling(
    mean: float, std: float, low: float, high: float, claim: tuple[float, float] | None, max_std: float
) -> tuple[bool, str] | None:
    """Say what inputs of this mean and standard deviation look like, and whether it is surely a fault; or None."""
    if claim is not None:
        m, s = claim
        looks = {
            "": (0.0, 1.0),
            "they were never normalised": (m, s),
            "pixels of 0..255 were never normalised": (255 * m, 255 * s),
            "they were normalised twice": (-m / s, 1 / s),
            "pixels of 0..255 were normalised like those of 0..1": ((255 * m - m) / s, 255.0),
            "pixels were divided by 255 twice": ((m / 255 - m) / s, 1 / 255),
        }
        far = {text: abs(mean - at) / max(std, of, 0.1) + abs(math.log(std / of)) for text, (at, of) in looks.items()}
        nearest = min(far, key=far.get)
        if nearest and far[""] > 0.5:
            return True, f"as if {nearest}" if far[nearest] < 0.3 else "far from that"
        return (True, "far from that") if abs(mean) > 1 or not 1 / 3 < std < 3 else None
    if std > max_std:
        s = 1 / std
        m = -mean * s
        ends = ((-m / s - m) / s, ((1 - m) / s - m) / s)  # where 0 and 1 are after two normalisations
        near = 0.25 * (ends[1] - ends[0])
        if 0 < m < 1 and abs(low - ends[0]) < near and abs(high - ends[1]) < near:
            return True, f"as if they were normalised twice (with mean {m:.2f} and std {s:.2f})"
        if std > 4 * max_std:
            return True, "as if they were never normalised"
        return False, "far from 0 and 1"
    if abs(mean) > 1 and abs(mean) > 2 * std:
        return abs(mean) > 4 * max_std, "most of them have one sign and the same size"
    return None


def average(values: float | Sequence[float]) -> float:
    return float(values) if isinstance(values, (int, float)) else sum(values) / len(values)
