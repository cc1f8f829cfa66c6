"""Whether tensors are the same on all ranks."""

from typing import Any

import torch
from torch import Tensor, distributed

from training_checklist.engines.batches import as_real

SMALLEST = 1e-12  # stands for the largest entry of a tensor of zeros


def distances(tensors: dict[str, Tensor], group: distributed.ProcessGroup) -> dict[str, float]:
    """Return how far each tensor is from rank 0's, on the rank where most, relative to its largest entry.

    The unit is the rounding of its dtype. All ranks must call it with the same names.
    """
    own = {}
    for name, tensor in tensors.items():
        real = as_real(tensor.detach())
        mine = real.double().cpu().contiguous()
        first = mine.clone()
        distributed.broadcast(first, 0, group)
        unit = torch.finfo(real.dtype).eps if real.is_floating_point() else 1.0
        own[name] = ((mine - first).abs().max() / first.abs().max().clamp(min=SMALLEST)).item() / unit
    answers: list[Any] = [None] * distributed.get_world_size(group)
    distributed.all_gather_object(answers, own, group)
    # NaN is the largest distance.
    return {name: max((answer[name] for answer in answers), key=lambda far: (far != far, far)) for name in tensors}
