"""What happens in a training step, seen from outside: the network's outputs, and the place in the code."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from training_checklist.engines.batches import tensors
from training_checklist.lightning import ROOT, LightningModule

# Files that are nobody's mistake: of the libraries, and of this package.
NOT_USERS = (*(str(Path(file).parent) for file in (torch.__file__, ROOT.__file__)), str(Path(__file__).parents[1]), "<")


def labels_of(batch: Any) -> Tensor | None:
    """Return the class indices (B,) of a batch, or None where it has none or more than one candidate."""
    found = [tensor for tensor in tensors(batch) if tensor.ndim == 1 and tensor.dtype in (torch.int64, torch.int32)]
    return found[0] if len(found) == 1 else None


class Logits:
    """Keeps the last output (B, C) of the outermost modules while it is on, which criterion and metrics don't have."""

    def __init__(self, pl_module: LightningModule) -> None:
        self.value: Tensor | None = None
        self._handles: list[RemovableHandle] = [
            module.register_forward_hook(self._keep) for module in (pl_module, *pl_module.children())
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()

    def _keep(self, module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 2 and output.shape[1] > 1 and output.is_floating_point():
            self.value = output

    def accuracy(self, batch: Any) -> float | None:
        """Return the share of right answers, or None where the batch or the outputs are no classification's."""
        labels = labels_of(batch)
        if self.value is None or labels is None or len(labels) != len(self.value):
            return None
        return float((self.value.argmax(1) == labels).float().mean())


class Places:
    """Names where in a model and in the user's code a call comes from."""

    def __init__(self, root: nn.Module) -> None:
        self._names = {id(module): name for name, module in root.named_modules()}
        self._root = type(root).__name__

    def here(self) -> str:
        """Return "path of the innermost module, file:line of the innermost frame of the user's code"."""
        path, line = None, None
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and (path is None or line is None):
            name = self._names.get(id(frame.f_locals.get("self")))
            if path is None and name is not None:
                path = name or self._root
            file = frame.f_code.co_filename
            if line is None and not file.startswith(NOT_USERS):
                line = f"{file}:{frame.f_lineno}"
            frame = frame.f_back
        return ", ".join(part for part in (path, line) if part)

    def near(self) -> str:
        """Return the same with the file from the working directory on, where it lies there."""
        return self.here().replace(f"{Path.cwd()}{os.sep}", "")
