"""What a tensor, a training step and a run's state were to the last bit, in a few bytes."""

import zlib
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from training_checklist.engines.batches import tensors
from training_checklist.engines.observe import Places
from training_checklist.lightning import LightningModule, Trainer


class Operations(TorchFunctionMode):
    """While it is entered, the results of all operations are fingerprinted: (step, name, place, digest)."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self.places, self.step = Places(root), 0
        self.rows: list[tuple[int, str, str, str]] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        name = getattr(function, "__name__", "")
        for tensor in tensors(result):
            if "empty" not in name:  # whatever lay in memory
                place = self.places.near()
                self.rows.append((self.step, name, place, digest(tensor)))
        return result


def digest(tensor: Tensor) -> str:
    """Return a checksum of a tensor's bytes, "" of one that has none."""
    try:
        plain = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
        return f"{zlib.crc32(plain.cpu().contiguous().reshape(-1).view(torch.uint8).numpy()):08x}"
    except (RuntimeError, NotImplementedError, TypeError):  # fake, lazy, inside vmap
        return ""


def norm(tensor: Tensor) -> float:
    return float(tensor.detach().to_dense().abs().float().norm()) if digest(tensor) else 0.0


def named(pl_module: LightningModule) -> dict[str, Tensor]:
    """Return all parameters and all buffers that a checkpoint holds; metrics keep none there."""
    state = {name: value for name, value in pl_module.state_dict().items() if isinstance(value, Tensor)}
    return dict(pl_module.named_parameters()) | state


def state_of(trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
    """Return what a resumed run must find again: weights, what optimizers keep, learning rates and the step."""
    state: dict[str, Any] = {name: digest(tensor) for name, tensor in named(pl_module).items()}
    names = {id(weight): name for name, weight in pl_module.named_parameters()}
    for optimizer in trainer.optimizers:
        state |= {f"lr of group {index}": group["lr"] for index, group in enumerate(optimizer.param_groups)}
        for weight, kept in optimizer.state.items():
            name = names.get(id(weight), "a parameter of another module")
            state |= {f"{key} of {name}": digest(value) for key, value in kept.items() if isinstance(value, Tensor)}
    return state | {"global_step": trainer.global_step}
