"""Whole numbers of a batch, and whether their type tells them apart."""

from typing import Any

import torch

from training_checklist.engines.batches import leaves
from training_checklist.evidence.values import CoarseNumbers
from training_checklist.finding import Place


def coarse_numbers(batch: Any) -> list[CoarseNumbers]:
    """Return the parts of a batch that hold whole numbers, some of them beyond those that their type has all of."""
    found = []
    for place, leaf in leaves(batch).items():
        if not leaf.is_floating_point() or leaf.numel() < 2:
            continue
        limit, values = int(2 / torch.finfo(leaf.dtype).eps), leaf.detach().double()
        if bool(values.isfinite().all()) and bool((values == values.round()).all()):
            where = Place(loader="train_dataloader", note=place)
            kind = str(leaf.dtype).removeprefix("torch.")
            found.append(CoarseNumbers(place, kind, float(values.abs().max()), limit, where))
    return found
