"""How large gradients are along the depth of a network."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch
from torchmetrics import Metric

from training_checklist.engines.batches import tensors
from training_checklist.engines.uncopied import after_forward, are_batched
from training_checklist.finding import Place
from training_checklist.lab.shared import Subject
from training_checklist.probe import CannotJudge


def learning_modules(root: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules that have trained parameters of their own, by their paths."""
    for name, module in root.named_modules():
        if any(p.requires_grad for p in module.parameters(recurse=False)) and not isinstance(module, Metric):
            yield name, module


class Signals:
    """Norms of the gradients that arrive at the outputs of all modules that learn, in the order of their calls."""

    def __init__(self, root: nn.Module) -> None:
        self.norms: dict[str, list[Tensor]] = {}
        self._handles = [after_forward(module, partial(self._keep, name)) for name, module in learning_modules(root)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def medians(self) -> dict[str, float]:
        return {path: median(torch.stack(norms).tolist()) for path, norms in self.norms.items() if norms}

    def _keep(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        first = next((tensor for tensor in tensors(output) if tensor.requires_grad), None)
        if first is not None and functorch.maybe_current_level() is None:  # within torch.func, its slopes are others
            first.register_hook(partial(self._keep_norm, self.norms.setdefault(name, [])))

    def _keep_norm(self, norms: list[Tensor], gradient: Tensor) -> None:
        if not are_batched([gradient]):
            norms.append(gradient.detach().norm().float())


@dataclass
class AlongDepth(Subject):
    """Median norm of the gradient at the output of each module, in the order of their calls."""

    sizes: dict[str, float]

    def along_depth(self) -> "AlongDepth":
        return self

    def ends(self) -> tuple[list[float], list[float]]:
        """Return the sizes of the first third of the modules, and of the last.

        Raises:
            CannotJudge: there is no depth; one module at an end would be one layer.
        """
        values, third = list(self.sizes.values()), len(self.sizes) // 3
        if third < 2 or not all(0 < size < math.inf for size in values):
            raise CannotJudge("fewer than six modules in a row have gradients, so that there is no depth to speak of")
        return values[:third], values[-third:]

    def is_of_depth(self, ratio: float) -> bool:
        """Whether no single step between two modules makes most of a change by `ratio`.

        A head that starts from 0, or a scale, changes the size by itself: that is one layer's matter.
        """
        logarithms = [math.log(size) for size in self.sizes.values()]
        steepest = max(abs(one - two) for one, two in pairwise(logarithms))
        return 2 * steepest < abs(math.log(ratio))

    def told(self, verb: str, ratio: float) -> tuple[str, Place]:
        """Return what happens to gradients along depth, and where."""
        (first, *_, last), (begin, end) = self.sizes, self.stretch
        each = ratio ** (1 / len(self.sizes))
        return (
            f"gradients {verb} along depth: {self.sizes[first]:.1e} at {first}, {self.sizes[last]:.1e} at {last}",
            Place(
                module=f"{first} to {last}",
                note=f"{len(self.sizes)} modules, a factor {each:.2g} each; most of it from {begin} to {end}",
            ),
        )

    @property
    def stretch(self) -> tuple[str, str]:
        """Return the first and the last module of the shortest stretch that makes nine tenths of the change."""
        names, logarithms = list(self.sizes), [math.log(size) for size in self.sizes.values()]
        whole = logarithms[0] - logarithms[-1]
        ends = ((start, start + length) for length in range(1, len(names)) for start in range(len(names) - length))
        first, last = next((one, two) for one, two in ends if (logarithms[one] - logarithms[two]) / whole >= 0.9)
        return names[first], names[last]
