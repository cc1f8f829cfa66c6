from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    NAMED,
    SAMPLES,
    Data,
    Example,
    MappedDataset,
    Roles,
    Validated,
    covers,
    is_mask,
    is_whole,
    leaves,
    may_be_called,
    moved_look,
    of_the_project,
    on_datasets,
    replaced,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

BESIDE = ("token_type_ids']", "special_tokens_mask']")  # of tokenizers, which many networks do not ask for


def detect(data: Data, limits: Limits) -> Hits:
    """Put other masks in place of those of a batch of the run; where it has none, of samples from all over the dataset.

    A mask says of each time step or point of a sample whether it counts, or of a sample how long it is.
    """
    few, roles = data.seen.first, data.roles
    data.replays()
    others = other_masks(few, roles)
    if not others and data.loaders and data.loaders[0].indexable:
        few = data.loaders[0].spread(SAMPLES, data.trainer)
        others = other_masks(few, roles)
    if not others:
        return
    with of_the_project("training_step, run again on other masks,"):
        look, known = moved_look(data.trainer, data.pl_module), leaves(few)
        loss = look.at(few)[0]
        if loss != look.at(few)[0]:
            raise CannotJudge("the same samples have another loss each time")
        silent = [
            place
            for place, values in others.items()
            if {look.at(replaced(few, {place: each.to(known[place].dtype)}))[0] for each in values} == {loss}
        ]
    others_of = [leaf for place, leaf in known.items() if place not in silent and is_mask(leaf)]
    for place in silent:
        if any(says_the_same(known[place], each) for each in others_of) or is_of_labels(place, known, roles):
            continue
        if any(look.at(replaced(few, each))[0] == loss for each in without_left_out(place, known, roles)):
            continue  # nothing depends on what it leaves out, as on what comes after a text that is read forwards
        unused = {other: leaf for other, leaf in known.items() if other not in roles.places}
        if any(may_be_of(known[place], leaf, is_named_after(place, other)) for other, leaf in unused.items()):
            continue  # of a part of the batch that this training does not use either
        held, mask = "how long samples are without their padding", known[place]
        if mask.ndim > 1:
            held = f"0 for {float((mask == 0).float().mean()):.0%} of what it covers and 1 for the rest"
        yield Hit(
            f"the training loss is the same whatever stands in {place}, which is {held}",
            Place(loader="train_dataloader", note=place),
        )


def other_masks(batch: Any, roles: Roles) -> dict[str, list[Tensor]]:
    """Return what may stand in place of each mask, and of each tensor of lengths, of a batch."""
    known = leaves(batch)
    used = [known[place] for place in {*roles.inputs, *roles.compared, roles.target} if place in known]
    others = {
        place: [1 - leaf.int(), torch.ones_like(leaf), torch.zeros_like(leaf)]
        for place, leaf in known.items()
        if place not in roles.inputs and not place.endswith(BESIDE) and may_be_called(place) and is_mask(leaf)
        if any(each is not leaf and covers(leaf, each) for each in used)
    }
    return others | {
        place: [torch.full_like(leaf, int(leaf.max())), (leaf + 1) // 2, leaf.roll(1, 0)]
        for place, leaf in known.items()
        if may_be_called(place) and any(are_lengths(leaf, each) for each in used)
    }


def says_the_same(mask: Tensor, other: Tensor) -> bool:
    """Whether a mask, or lengths, (N,), leave out what another mask does, whichever of 0 and 1 stands for that."""
    sides = other != 0, other == 0
    if mask.ndim == 1:
        return any(torch.equal(side.flatten(1).sum(1), mask) for side in sides if len(side) == len(mask))
    return any(torch.equal(side, mask != 0) for side in sides)


def is_of_labels(place: str, known: dict[str, Tensor], roles: Roles) -> bool:
    """Whether the labels that are not ignored stand where a mask is 1, and inputs that count where it is 0."""
    mask = known[place]
    covered = {name: leaf for name, leaf in known.items() if mask.ndim > 1 and leaf is not mask and covers(mask, leaf)}
    inputs = [leaf[mask == 0] for name, leaf in covered.items() if name in roles.inputs]
    labels = [leaf for name, leaf in covered.items() if name not in roles.inputs and leaf.shape == mask.shape]
    return any(torch.equal(leaf != roles.ignored, mask != 0) for leaf in labels) and any(
        len(each.unique()) > 1 for each in inputs
    )


def without_left_out(place: str, known: dict[str, Tensor], roles: Roles) -> Iterator[dict[str, Tensor]]:
    """Yield what a batch would hold with other numbers where a mask is 0, and where it is 1, or after the lengths.

    Labels that are ignored there anyway stay.
    """
    mask, used = known[place], {name: known[name] for name in roles.places if name in known and name != place}
    sides = [mask == 0, mask != 0]
    if mask.ndim == 1:
        times = {leaf.shape[1] for leaf in used.values() if are_lengths(mask, leaf)}
        sides = [torch.arange(time, device=mask.device) >= mask[:, None] for time in times]
    for side in sides:
        others = {}
        for name, leaf in used.items():
            if not covers(side, leaf) or (name not in roles.inputs and bool((leaf[side] == roles.ignored).all())):
                continue
            order = torch.randperm(leaf.numel(), generator=torch.Generator().manual_seed(0)).to(leaf.device)
            where = side.reshape(*side.shape, *[1] * (leaf.ndim - side.ndim))
            others[name] = torch.where(where, leaf.flatten()[order].view_as(leaf), leaf)
        if others:
            yield others


def may_be_of(mask: Tensor, leaf: Tensor, named: bool) -> bool:
    return mask.ndim > 1 and leaf is not mask and covers(mask, leaf) and (named or not is_mask(leaf))


def is_named_after(place: str, other: str) -> bool:
    """Whether the name of one place begins with that of another, as `label_mask` does with `label`."""
    name, its = NAMED.search(place), NAMED.search(other)
    return name is not None and its is not None and name[1] != its[1] and name[1].startswith(its[1])


def are_lengths(leaf: Tensor, padded: Tensor) -> bool:
    """Whether a tensor, (N,), holds how long each sample of another one is, (N, T) or (N, T, ...), before its zeros."""
    if leaf.ndim != 1 or not is_whole(leaf) or leaf.dtype == torch.bool:
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


class Blind(Validated):
    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch[0]), batch[1])


class Masked(Validated):
    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch[0] * batch[2]), batch[1])


class Padded(Validated):
    """Leaves out padding by a mask, beside which the batch has the lengths that it was made of."""

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch[0][..., 0] * batch[2]), batch[1])


def with_lengths() -> MappedDataset:
    places = torch.arange(8)

    def padded(index: int, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        length = 3 + index % 6
        mask = places < length
        return (x.abs() + 0.1)[:, None] * mask[:, None], y, mask, torch.tensor(length)

    return MappedDataset(padded)


class Named(Validated):
    """Learns one of the targets of a batch that has names for what it holds."""

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        return self.loss(self(batch["x"]), batch["y"])

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        self.log("val/loss", self.training_step(batch, batch_idx))


def called(name: str) -> Example:
    """A tensor of 0 and 1 that nothing reads."""

    def named() -> MappedDataset:
        return MappedDataset(lambda index, x, y: {"x": x, "y": y, name: x > -1})

    return on_datasets(named, named, module=Named)


def of_another_target() -> MappedDataset:
    """Have a mask of labels of yes and no, beside those that are learned."""
    return MappedDataset(lambda index, x, y: {"x": x, "y": y, "kind": x > 0, "kind_mask": x > -1})


def with_mask() -> MappedDataset:
    return MappedDataset(lambda index, x, y: (x, y, x > -1))


PROBE = Probe(
    question="Does the training loss depend on the masks (or lengths) that are in the batch?",
    why="what a mask leaves out (missing values, hidden points, padding) counts as if it had been measured",
    severity=WARNING,
    fix=Fix(
        "multiply by it where the loss, attention or a mean over time would read what it leaves out: (loss * "
        "mask).sum() / mask.sum(), with the mask resized to the loss's resolution"
    ),
    detect=detect,
    faulty=on_datasets(with_mask, module=Blind),
    also_faulty=(called("valid"),),
    healthy=on_datasets(with_mask, module=Masked),
    also_healthy=(
        on_datasets(with_lengths, module=Padded),
        called("onsets"),
        on_datasets(of_another_target, of_another_target, module=Named),
    ),
)
