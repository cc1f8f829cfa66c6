"""Masks and lengths that come with the samples, and whether training asks for them."""

import math
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.batches import leaves
from training_checklist.engines.compared import SAMPLES, first_of, moved_look, replaced
from training_checklist.engines.splits import splits
from training_checklist.evidence.values import Mask
from training_checklist.finding import Place
from training_checklist.lab.roles import Roles
from training_checklist.lightning import LightningModule, Trainer

BESIDE = ("token_type_ids']", "special_tokens_mask']")  # of tokenizers, which many networks do not ask for


def masks(trainer: Trainer, pl_module: LightningModule, batch: Any, roles: Roles) -> list[Mask]:
    """Return what says of each time step or point of a sample whether it counts, and whether the loss depends on it.

    Of the run's batch, or, where that has none, of samples from all over the dataset.
    """
    if not pl_module.automatic_optimization or trainer.world_size > 1:
        return []
    few = first_of(batch, SAMPLES)
    others = other_masks(few, roles)
    train = splits("train", trainer.train_dataloader)[:1]
    if not others and train and train[0].indexable:
        few = train[0].spread(SAMPLES, trainer)
        others = other_masks(few, roles)
    known, evidence = leaves(few), []
    with suppress(Exception):  # of the project's step, on a batch that the run does not have
        look = moved_look(trainer, pl_module) if others else None
        loss = look.at(few)[0] if look else math.nan
        for place, values in others.items() if look and loss == look.at(few)[0] else ():
            mask, where = known[place], Place(loader="train_dataloader", note=place)
            losses = {look.at(replaced(few, {place: each.to(mask.dtype)}))[0] for each in values}
            zeros = float((mask == 0).float().mean()) if mask.ndim > 1 else None
            evidence.append(Mask(place, zeros, losses != {loss}, where))
    return evidence


def other_masks(batch: Any, roles: Roles) -> dict[str, list[Tensor]]:
    """Return what may stand in place of each mask, and of each tensor of lengths, of a batch."""
    known = leaves(batch)
    used = [known[place] for place in {*roles.inputs, *roles.compared, roles.target} if place in known]
    others = {
        place: [1 - leaf.int(), torch.ones_like(leaf), torch.zeros_like(leaf)]
        for place, leaf in known.items()
        if place not in roles.inputs and not place.endswith(BESIDE) and is_mask(leaf)
        if any(each is not leaf and covers(leaf, each) for each in used)
    }
    return others | {
        place: [torch.full_like(leaf, int(leaf.max())), (leaf + 1) // 2, leaf.roll(1, 0)]
        for place, leaf in known.items()
        if any(are_lengths(leaf, each) for each in used)
    }


def is_mask(leaf: Tensor) -> bool:
    """Whether a tensor holds 0 and 1 alone, both of them, for several parts of each sample."""
    if leaf.ndim < 2 or leaf[0].numel() < 2 or leaf.is_complex():
        return False
    zeros = leaf == 0
    return bool((zeros | (leaf == 1)).all()) and bool(zeros.any()) and not bool(zeros.all())


def covers(mask: Tensor, leaf: Tensor) -> bool:
    """Whether a mask has an entry for each part of a tensor."""
    return leaf.ndim >= mask.ndim and leaf.shape[: mask.ndim] == mask.shape


def are_lengths(leaf: Tensor, padded: Tensor) -> bool:
    """Whether a tensor, (N,), holds how long each sample of another one is, (N, T) or (N, T, ...), before its zeros."""
    if leaf.ndim != 1 or leaf.is_floating_point() or leaf.dtype == torch.bool or leaf.is_complex():
        return False
    for time in (1, 2):  # (N, T, features), or (N, channels, T)
        if padded.ndim <= time or padded.is_complex() or len(padded) != len(leaf):
            continue
        rows = padded.movedim(time, 1).flatten(2) if padded.ndim > 2 else padded[..., None]
        filled = (rows != 0).any(2)
        last = filled.shape[1] - filled.flip(1).int().argmax(1)
        if int(leaf.max()) <= filled.shape[1] and torch.equal(last, leaf) and len(leaf.unique()) > 2:
            return True
    return False
