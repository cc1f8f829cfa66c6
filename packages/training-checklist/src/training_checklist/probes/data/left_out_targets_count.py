from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from training_checklist.instruments import (
    Data,
    MappedDataset,
    Small,
    covers,
    is_dense,
    is_mask,
    leaves,
    may_be_called,
    moved_look,
    of_the_project,
    on_datasets,
    replaced,
    seed_all,
    unchanged,
)
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(data: Data, limits: Limits) -> Hits:
    """Ask for the gradient of the loss by the targets: where a mask leaves them out, it is zero."""
    batch, inputs = data.seen.first, data.roles.inputs
    filled = [each for each in left_out(batch) if each[0] not in inputs]
    if not filled:
        return
    data.replays()
    with of_the_project("training_step, run again for gradients by its targets,"):
        look = moved_look(data.trainer, data.pl_module)
        for place, mask, outside in filled:
            given = leaves(batch)[place].clone().requires_grad_()
            with torch.enable_grad(), unchanged(look.module):
                seed_all()
                loss = look.loss_of(replaced(batch, {place: given * 1}))  # which a step may change in place
                grad = torch.autograd.grad(loss, given, allow_unused=True)[0] if loss.requires_grad else None
            if grad is not None and grad[~outside].any() and grad[outside].any():
                what = f"the training loss depends on {place} where {mask} leaves it out: there, it is filled up with "
                yield Hit(f"{what}{float(given[outside].flatten()[0]):g}", Place(loader="train_dataloader", note=place))


def left_out(batch: Any) -> Iterator[tuple[str, str, Tensor]]:
    """Yield the place of numbers that are filled up with one number, and of the mask that says where, and where."""
    known = {place: leaf for place, leaf in leaves(batch).items() if is_dense(leaf)}
    masks = {place: leaf for place, leaf in known.items() if may_be_called(place) and is_mask(leaf)}
    for place, leaf in known.items():
        for name, mask in masks.items():
            if not leaf.numel() or not leaf.is_floating_point() or is_mask(leaf) or not covers(mask, leaf):
                continue
            sides = mask == 0, mask != 0  # True may stand for what counts, or for padding
            outside = [side for side in sides if (leaf[side] == leaf[side].flatten()[0]).all()]
            if len(outside) == 1:
                yield place, name, outside[0]
                break


class Counting(Small):
    """Learns several numbers of each sample, of which some are missing."""

    leaves_out = False

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(8, 8)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        off = (self.net(batch["x"]).view_as(batch["y"]) - batch["y"]).abs()
        return (off * batch["mask"]).sum() / batch["mask"].sum() if self.leaves_out else off.mean()

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx))


class LeavingOut(Counting):
    leaves_out = True


class ByFill(Counting):
    """Knows what is missing by what it is filled up with."""

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        return (self.net(batch["x"]) - batch["y"])[batch["y"] != 0].abs().mean()


def missing(*shape: int) -> Callable[[], MappedDataset]:
    """Have numbers of a shape, of which the first ones are there."""

    def sample(index: int, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        there = torch.arange(shape[0]) < 2 + index % (shape[0] - 1)
        numbers = (x.cumsum(0) + 1).view(shape)
        return {"x": x, "y": torch.where(there.view(-1, *[1] * (len(shape) - 1)), numbers, 0), "mask": there}

    return lambda: MappedDataset(sample)


PROBE = Probe(
    question="Does the training loss leave out those targets that a mask in the batch leaves out?",
    why="the network learns to answer with what targets are filled up with",
    severity=WARNING,
    fix=Fix("(loss * mask).sum() / mask.sum(), with reduction='none', or loss[mask].mean()"),
    detect=detect,
    faulty=on_datasets(missing(8), missing(8), module=Counting),
    healthy=on_datasets(missing(8), missing(8), module=LeavingOut),
    also_faulty=(on_datasets(missing(4, 2), missing(4, 2), module=Counting),),
    also_healthy=(on_datasets(missing(8), missing(8), module=ByFill),),
)
