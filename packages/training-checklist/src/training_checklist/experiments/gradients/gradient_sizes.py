"""How large gradients are along the depth of a network."""

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import Metric

from training_checklist.engines.batches import tensors
from training_checklist.engines.uncopied import after_forward


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
        if first is not None:
            norms = self.norms.setdefault(name, [])
            first.register_hook(lambda gradient: norms.append(gradient.detach().norm().float()))
