"""What of a batch is only compared with: the loss depends on it, and no layer sees it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from training_checklist.engines.batches import (
    batch_size,
    holds_numbers,
    leaves,
    mapped,
    plain_lists,
    tensors,
    with_lists,
)
from training_checklist.engines.fingerprints import digest_of
from training_checklist.engines.lazy import initialized
from training_checklist.engines.replay import call_step, loss_in, seed_all, unchanged
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.uncopied import after_forward
from training_checklist.lightning import LightningModule, MixedPrecision, Trainer, isolate_rng
from training_checklist.probe import CannotJudge

HALF = (torch.float16, torch.bfloat16)


def has_half(module: nn.Module) -> bool:
    return any(weight.dtype in HALF for weight in module.parameters())


def in_full_precision(batch: Any, module: nn.Module) -> Any:
    """Return a batch for weights of float32 where autocast, which lets 16 bits meet them, is not at work."""
    if has_half(module):
        return batch
    return mapped(batch, lambda tensor: tensor.float() if tensor.dtype in HALF else tensor)


SAMPLES = 8  # that are looked at: exchanging targets among them is as telling as among more
MOVED = 0.1  # of 1 / sqrt(fan-in), the deviation that layers begin with
ROUNDING = 1e-5  # relative: the same float32 numbers, added up in another order
CLEAR = 100 * ROUNDING  # exchanging targets changes less than giving all samples one: that must be far from rounding
IN_A_LIST = re.compile(r"batch(\[[^]]*\]|\.\w+).*\[\d+\]")  # of one tensor, or more, for each sample
MOVES = (1, 2, 4)  # places: pairs that stand together stay so for 2, and halves that belong together for 4


class Look:
    """Looks at steps of a network: the loss that a batch has, and what its layers answer.

    Args:
        module: a copy of the network, whose steps leave no trace.
        loss_of: takes such a step, and returns its loss.
    """

    def __init__(self, module: nn.Module, loss_of: Callable[[Any], Tensor]) -> None:
        self.module, self.loss_of = module, loss_of

    @torch.no_grad()
    def at(self, batch: Any, seed: int = 0) -> tuple[float, list[str]]:
        """Return the loss and a fingerprint of each answer, with the same random numbers and the same state each time.

        No backward pass follows, which would free what it needs: a metric that keeps answers would keep all of it.
        """
        with unchanged(self.module), heard_answers(self.module) as seen:
            seed_all(seed)
            return float(self.loss_of(batch)), seen

    def only_compared(self, batch: Any) -> Iterator[tuple[str, Tensor, bool]]:
        """Yield place, tensor, and whether the loss depends on which sample an entry belongs to.

        Nothing where the step does not repeat, where no layer was seen to answer, or where none is given samples: the
        step then picks from answers for all nodes of a graph, say, by what is in the batch.
        """
        longest = max((len(leaf) for leaf in leaves(batch).values() if leaf.ndim), default=0)
        loss, known = self.at(batch) if longest > 2 else (0.0, [])
        if not known or self.at(batch) != (loss, known):
            return
        unseen, sizes = {}, set()
        for path, leaf in leaves(batch).items():
            if not leaf.ndim or torch.equal(leaf, leaf.roll(1, 0)):
                continue
            looks = [self.at(replaced(batch, {path: leaf.roll(by, 0)})) for by in (1, 2)]
            if any(answered != known for _, answered in looks):
                sizes.add(len(leaf))
            else:
                unseen[path] = leaf, looks
        if not sizes and not self._is_given(batch, known):
            return
        for path, (leaf, looks) in unseen.items():
            if any(self._differ(other, loss) for other, _ in looks):
                yield path, leaf, True
            elif IN_A_LIST.match(path) or (sizes and len(leaf) not in sizes):
                continue  # its entries may all be one sample's, as the boxes in an image
            elif self._depends_on(batch, loss, [path]) and self._depends_on(batch, loss, self._others(batch, path)):
                yield path, leaf, False

    def is_blind(self, batch: Any) -> bool:
        """Whether all layers answer samples that have changed places as before, and the loss depends on the batch.

        Where they answer fewer samples the same, it is not these that they are given, but all nodes of a graph, say;
        and a network that is fed what is drawn, as a generator, makes samples that are compared with a batch as a set.
        """
        paths = [path for path, leaf in leaves(batch).items() if leaf.ndim and not torch.equal(leaf, leaf.roll(1, 0))]
        loss, known = self.at(batch) if paths else (0.0, [])
        moved = rolled(batch, 1)
        repeats = bool(known) and moved is not None and all(self.at(each)[1] == known for each in (batch, moved))
        if not repeats or self.at(batch, seed=1)[1][:1] != known[:1] or not self._depends_on(batch, loss, paths):
            return False
        return self._is_given(batch, known)

    def _is_given(self, batch: Any, known: list[str]) -> bool:
        """Whether layers answer fewer samples otherwise, as far as a batch has samples."""
        size = batch_size(batch)
        return size is None or self.at(first_of(batch, size - 1))[1] != known

    def _others(self, batch: Any, path: str) -> list[str]:
        return [other for other, leaf in leaves(batch).items() if leaf.ndim and other != path]

    def _depends_on(self, batch: Any, loss: float, paths: list[str]) -> bool:
        """Whether the loss is clearly another one where all samples have the same in some places.

        Answers that hardly differ, as of a saturated network, make it nearly the same whatever belongs to whom.
        """
        known = leaves(batch)
        return any(
            self._differ(
                self.at(replaced(batch, {path: same_as(known[path], index) for path in paths}))[0], loss, CLEAR
            )
            for index in (0, -1)
        )

    def moved(self, batch: Any) -> tuple[float, list[float]] | None:
        """Return the loss of a batch, and those of the same samples moved by some places; None where it is random.

        They are the same number where only the order of additions tells them apart.
        """
        loss, batches = self.at(batch)[0], [rolled(batch, by) for by in MOVES]
        repeats = loss == self.at(batch, seed=1)[0]  # noise is drawn for places; NaN is no loss either
        if not repeats or any(each is None for each in batches):
            return None
        others = [self.at(each)[0] for each in batches]
        return loss, [other if self._differ(other, loss) else loss for other in others]

    def _differ(self, one: float, other: float, share: float = ROUNDING) -> bool:
        return abs(one - other) > share * max(abs(one), abs(other))


def compared_leaves(trainer: Trainer, pl_module: LightningModule, batch: Any) -> Iterator[tuple[str, Tensor, bool]]:
    """Yield what `Look.only_compared` does, of the first samples of a batch and a copy of the run's network."""
    return moved_look(trainer, pl_module).only_compared(first_of(batch, SAMPLES))


def moved_look(trainer: Trainer, pl_module: LightningModule) -> Look:
    """Return a look at a copy of the run's network whose weights are moved a little.

    Where a layer begins with zeros, all samples have one answer, and it would not matter whose target is whose.

    Raises:
        CannotJudge: weights have 16 bits.
    """
    copy = stand_in(pl_module, trainer)
    with isolate_rng():
        seed_all()
        move(copy)

    if has_half(copy):
        raise CannotJudge("numbers of 16 bits are too coarse to be compared")
    plugin = trainer.precision_plugin
    full = isinstance(plugin, MixedPrecision)  # which computes in 16 bits what it can compute in 32

    def loss_of(batch: Any) -> Tensor:
        with nullcontext() if full else plugin.train_step_context():
            loss = loss_in(call_step(copy, "training_step", batch))
        return torch.tensor(torch.nan) if loss is None else loss

    return Look(copy, loss_of)


@torch.no_grad()
def move(module: torch.nn.Module) -> None:
    for weight in initialized(module.parameters()):
        if weight.is_floating_point():
            fan_in = weight.shape[1:].numel() or 1  # none: a layer for features that there are not
            weight.add_(torch.randn_like(weight) * MOVED / fan_in**0.5)


@contextmanager
def heard_answers(module: nn.Module) -> Iterator[list[str]]:
    """Yield a list that is given a fingerprint of whatever a module with weights returns, but the root."""
    seen: list[str] = []
    hooks = [
        after_forward(part, lambda module, given, answer: seen.append(digest_of(answer)))
        for part in module.modules()
        if part is not module and any(True for _ in part.parameters())
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def same_as(leaf: Tensor, index: int) -> Tensor:
    """Return a tensor in which all samples have one sample's entry."""
    return leaf[[index]].expand_as(leaf).clone()


def replaced(batch: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a batch with other tensors in some places."""
    new = {id(leaf): tensors[path] for path, leaf in leaves(batch).items() if path in tensors}
    return mapped(batch, lambda tensor: new.get(id(tensor), tensor))


def rolled(batch: Any, by: int) -> Any:
    """Return a batch with its samples moved by some places, each as it is; None where a part of it cannot be moved."""
    if any(not holds_numbers(tensor) and tensor.numel() for tensor in tensors(batch)):
        return None
    size = batch_size(batch)
    if size is not None:
        lists = {id(each) for each in plain_lists(batch, size)}
        batch = with_lists(batch, size, lambda each: rolled_list(each, by))
        if any(id(each) in lists for each in plain_lists(batch, size)):
            return None
    known = leaves(batch)
    moved = replaced(batch, {path: leaf.roll(by, 0) for path, leaf in known.items() if leaf.ndim})
    # Lightning leaves the attributes of objects alone, and fields of a dataclass that its constructor does not take.
    return None if any(leaf.ndim and leaves(moved)[path] is leaf for path, leaf in known.items()) else moved


def rolled_list(values: Any, by: int) -> Any:
    return np.roll(values, by, 0) if isinstance(values, np.ndarray) else values[-by:] + values[:-by]


def first_of(batch: Any, number: int) -> Any:
    """Return the first samples of a batch, or all where it has no more."""
    size = batch_size(batch)
    if size is None or size <= number:
        return batch
    batch = with_lists(batch, size, lambda each: each[:number])
    return mapped(batch, lambda each: each[:number] if each.ndim else each)
