"""How large gradients are along the depth of a network, and how far a step moves its weights."""

import math
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torchmetrics import Metric

from training_checklist.engines.batches import tensors

MOST = 0.9  # of the change along depth, by its logarithm


class Signals:
    """Norms of the gradients that arrive at the outputs of all modules that learn, in the order of their calls."""

    def __init__(self, root: nn.Module) -> None:
        self.norms: dict[str, list[Tensor]] = {}
        self._handles = [
            module.register_forward_hook(partial(self._keep, name))
            for name, module in root.named_modules()
            if any(p.requires_grad for p in module.parameters(recurse=False)) and not isinstance(module, Metric)
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def medians(self) -> dict[str, float]:
        return {path: median(torch.stack(norms).tolist()) for path, norms in self.norms.items() if norms}

    def _keep(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        first = next((tensor for tensor in tensors(output) if tensor.requires_grad), None)
        if first is not None:
            norms = self.norms.setdefault(name, [])
            first.register_hook(lambda gradient: norms.append(gradient.detach().norm()))


def along_depth(sizes: dict[str, float], vanishing: float, exploding: float) -> tuple[str, float] | None:
    """Return "vanish" or "explode", and by which factor from the last modules to the first; None where they do neither.

    A single layer that changes the size by much is no matter of depth: a head that starts from 0, a scale.
    """
    values = list(sizes.values())
    third = len(values) // 3
    if third < 2 or not all(0 < value < math.inf for value in values):
        return None
    early, late = values[:third], max(values[-third:])
    steepest = max(abs(math.log(one / two)) for one, two in pairwise(values))
    for kind, ratio in (("vanish", max(early) / late), ("explode", median(early) / late)):
        far = ratio < vanishing if kind == "vanish" else ratio > exploding
        if far and steepest < 0.5 * abs(math.log(ratio)):
            return kind, ratio
    return None


def steepest_part(sizes: dict[str, float]) -> tuple[str, str]:
    """Return the first and last module of the shortest stretch that makes most of the change along depth."""
    names, logarithms = list(sizes), [math.log(value) for value in sizes.values()]
    whole = logarithms[0] - logarithms[-1]
    stretches = ((start, start + length) for length in range(1, len(names)) for start in range(len(names) - length))
    first, last = next(
        (start, end) for start, end in stretches if (logarithms[start] - logarithms[end]) / whole >= MOST
    )
    return names[first], names[last]


class Updates:
    """How far each step moves the weights, relative to their norm, at the learning rate that a schedule starts from."""

    def __init__(self, parameters: Iterable[Tensor], optimizers: Sequence[Optimizer]) -> None:
        learnt = [parameter.detach() for parameter in parameters]
        self._weights = [weight for weight in learnt if weight.ndim > 1] or learnt  # biases may start from 0
        self._groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        self.ratios: list[float] = []
        self.before_step()

    def before_step(self) -> None:
        self._before = [weight.clone() for weight in self._weights]
        self.rate = max(float(group["lr"]) for group in self._groups)

    def after_step(self) -> None:
        size = norm(self._before)
        start = max(float(group.get("initial_lr", group["lr"])) for group in self._groups)
        warming_up = max(start / self.rate, 1.0) if self.rate else 1.0
        moved = norm([now - before for now, before in zip(self._weights, self._before, strict=True)])
        if size and self.rate:
            self.ratios.append(moved / size * warming_up)


def gradient_norms(parameters: dict[str, Tensor]) -> dict[str, float | None]:
    """Return the norm of each parameter's gradient, None where there is none."""
    gradients = {name: parameter.grad for name, parameter in parameters.items() if parameter.grad is not None}
    dense = [g.coalesce().values() if g.is_sparse else g for g in gradients.values()]
    norms = torch.stack(torch._foreach_norm(dense)).tolist() if dense else []
    return dict.fromkeys(parameters) | dict(zip(gradients, norms, strict=True))


def norm(values: list[Tensor]) -> float:
    return float(torch.stack(torch._foreach_norm(values)).norm()) if values else 0.0
