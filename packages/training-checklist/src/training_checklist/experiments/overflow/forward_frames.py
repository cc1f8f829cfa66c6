"""The last calls of modules in a forward pass, with the range of what they hold, take and return."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from training_checklist.engines.not_finite import floats, largest
from training_checklist.engines.uncopied import after_forward

COLUMNS = ("module", "type", "weights", "inputs", "outputs")


@dataclass
class Frame:
    """One call of a module. Ranges are read from the tensors only when somebody asks: that costs a pass over each."""

    path: str
    type: str
    weights: list[Tensor]
    inputs: list[Tensor]
    outputs: list[Tensor]

    def cells(self) -> list[str]:
        return [self.path, self.type, *map(ranged, (self.weights, self.inputs, self.outputs))]


class Frames:
    """Keeps the last frames of a step, or all of them where it is asked to; `largest` has the abs-max of each output.

    Args:
        kept: how many; None: all.
    """

    def __init__(self, root: nn.Module, kept: int | None) -> None:
        self.kept = kept
        self.start(everything=False)
        inside = {id(part) for module in root.modules() if isinstance(module, Metric) for part in module.modules()}
        self._handles = [
            after_forward(module, partial(self._keep, name or type(module).__name__))
            for name, module in root.named_modules()
            if id(module) not in inside
        ]

    def start(self, everything: bool) -> None:
        """Forget the step before."""
        self.frames: deque[Frame] = deque(maxlen=None if everything else self.kept)
        self.largest: list[tuple[str, torch.dtype, Tensor]] = []

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def table(self) -> list[str]:
        """Return a line a frame, the column's names first; ranges are abs-min and abs-max."""
        rows = [list(COLUMNS), *(frame.cells() for frame in self.frames)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return ["  ".join(line).rstrip() for line in lines]

    def first_bad_input(self) -> str:
        """Return the path of the first module that was given Inf or NaN, or ""."""
        bad = (f.path for f in self.frames if not all(torch.isfinite(each).all() for each in f.inputs))
        return next(bad, "")

    def _keep(self, path: str, module: nn.Module, inputs: Any, output: Any) -> None:
        outputs = list(floats(output))
        known = self.frames[-1].outputs if self.frames else []
        if outputs and (len(known) != len(outputs) or any(a is not b for a, b in zip(known, outputs, strict=True))):
            # A container returns what its last module returned.
            self.largest += [(path, each.dtype, largest(each)) for each in outputs]
        weights = [parameter.detach() for parameter in module.parameters(recurse=False)]
        self.frames.append(Frame(path, type(module).__name__, weights, list(floats(inputs)), outputs))


def ranged(values: Iterable[Tensor]) -> str:
    """Return abs-min and abs-max."""
    found = list(floats(list(values)))
    if not found:
        return ""
    low = min(float(torch.linalg.vector_norm(each.float(), -torch.inf)) for each in found)
    return f"{low:.2e} {float(torch.stack([largest(each).float() for each in found]).max()):.2e}"
