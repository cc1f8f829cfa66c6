from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from training_checklist.instruments import (
    MOVED,
    PAD,
    SAMPLES,
    Example,
    Look,
    Small,
    Step,
    after_forward,
    answers,
    differences,
    first_of,
    is_whole,
    leaves,
    look,
    replaced,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(step: Step, limits: Limits) -> Hits:
    """Exchange an item of each sequence, and see whether what the network makes of the position before it changes."""
    looked, batch, judged = look(step), first_of(step.batch, SAMPLES), False
    for path, following in sequences_and_next(step.batch, limits):
        given, next_items = leaves(batch)[path], leaves(batch)[following]
        if is_asked_of_criterion(step, next_items):
            continue
        others = given.roll(1, 0)
        tells = (given != others) & (given != PAD) & (others != PAD)
        tells[:, 1:] &= next_items[:, :-1] != PAD
        position = 1 + int(tells[:, 1:].sum(0).argmax())
        changed = given.clone()
        changed[:, position] = torch.where(tells[:, position], others[:, position], given[:, position])
        pair = last_that_depends(looked, batch, replaced(batch, {path: changed}), given.shape, limits)
        if pair is None or not tells[:, position].any():
            continue
        judged = True
        if bool((differences(*pair)[:, position - 1] > limits.answers_moved)[tells[:, position]].any()):
            yield Hit(
                f"{following} holds the next item of each position of {path}, and what the network makes of a position "
                "changes with that very item",
                step.place.beside(loader="train_dataloader", note=path),
            )
    if not judged:
        raise CannotJudge("no part of a batch holds the next items of a sequence in another part")


def sequences_and_next(batch: Any, limits: Limits) -> Iterator[tuple[str, str]]:
    """Yield the places of two tensors of ids, (B, L) both, of which the second is the first, a position later."""
    ids = {path: leaf for path, leaf in leaves(batch).items() if leaf.ndim == 2 and is_whole(leaf)}
    for (path, leaf), (other, following) in permutations(ids.items(), 2):
        if leaf.shape == following.shape and len(leaf) > 1 and len(leaf.unique()) >= limits.kinds_of_items:
            known = following[:, :-1] != PAD
            alike = (following[:, :-1] == leaf[:, 1:])[known]
            if alike.numel() >= limits.known_items and bool(alike.all()):
                yield path, other


def is_asked_of_criterion(step: Step, next_items: Tensor) -> bool:
    """Whether a criterion compares with class indices for each position, so that its answers show the same."""
    try:
        target = answers(step).classification().target
    except CannotJudge:
        return False
    return target.numel() % next_items.shape[1] == 0


def last_that_depends(
    looked: Look, batch: Any, changed: Any, shape: torch.Size, limits: Limits
) -> tuple[Tensor, Tensor] | None:
    """Return the last outputs of a module for each position, (B, L, ...), that differ between two batches."""
    pairs = zip(outputs(looked, batch, shape), outputs(looked, changed, shape), strict=False)
    differing = [pair for pair in pairs if bool((differences(*pair) > limits.answers_moved).any())]
    return differing[-1] if differing else None


def outputs(looked: Look, batch: Any, shape: torch.Size) -> list[Tensor]:
    found: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 3 and output.shape[:2] == shape and output.is_floating_point():
            found.append(output.detach().clone())

    with ExitStack() as stack:
        for module in looked.module.modules():
            stack.callback(after_forward(module, keep).remove)
        looked.at(batch)
    return found


class Recommender(Small):
    """Draws items that did not come next beside the one that did; `leak` is the weight of a mean of all positions."""

    leak, kinds = 0.0, 64

    def __init__(self) -> None:
        super().__init__()
        self.items, self.mixed = nn.Embedding(self.kinds + 1, 8), nn.Linear(8, 8)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        seen = self.items(batch[0])
        before = seen.cumsum(1) / torch.arange(1, 1 + seen.shape[1])[:, None]
        hidden = self.mixed(before + self.leak * seen.mean(1, keepdim=True))
        wrong = torch.randint(1, self.kinds, batch[1].shape)
        scores = [(hidden * self.items(each)).sum(-1) for each in (batch[1], wrong)]
        return functional.softplus(-scores[0]).mean() + functional.softplus(scores[1]).mean()


def sessions(leak: float, rows: int = 16, length: int = 8, kinds: int = 64) -> Example:
    def loader() -> DataLoader:
        items = torch.randint(1, kinds, (rows, length + 1))
        return DataLoader([(row[:-1], row[1:]) for row in items], batch_size=rows)

    return Example(type("Recommender", (Recommender,), {"leak": leak}), loader)


PROBE = Probe(
    question="Is the item that comes next hidden from what the network makes of the items before it?",
    why="it copies the answer from its input; where the next item is asked for there is nothing to copy",
    severity=WARNING,
    may_be_wrong="what encodes a sequence as a whole, to decode it again, sees all of it",
    fix=Fix("let no position see a later one: a causal mask, triu(diagonal=1), in every layer of attention"),
    thresholds={
        "answers_moved": replace(MOVED, faulty=sessions(5e-3), healthy=sessions(2e-4)),
        "known_items": Threshold(
            20,
            "next items that are compared: of 5 kinds two are the same by chance in one of 5 places, and in all of 20 "
            "places in none of a billion batches",
            factor=1.5,
            faulty=sessions(1.0, 24, 2),
            healthy=sessions(1.0, 16, 2),
        ),
        "kinds_of_items": Threshold(
            5,
            "different ids: masks and labels of yes and no are fewer",
            factor=1.5,
            faulty=sessions(1.0, kinds=7),
            healthy=sessions(1.0, kinds=5),
        ),
    },
    detect=detect,
    faulty=sessions(1.0),
    healthy=sessions(0.0),
)
