"""Sequences of tokens: what a network answers to a batch of them, and what it answers with more padding."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from training_checklist.engines.batches import is_whole, leaves
from training_checklist.engines.compared import Look, replaced
from training_checklist.engines.criteria import Criteria, CriterionCall
from training_checklist.engines.replay import seed_all
from training_checklist.engines.tracer import Tracer
from training_checklist.engines.uncopied import after_forward
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.shared import of_the_project, once
from training_checklist.lab.step import Step, look, train_split
from training_checklist.lightning import isolate_rng
from training_checklist.probe import CannotJudge, Threshold

ADDED = 2  # positions of padding: a table of positions may have no room for many
SPREAD = 16  # samples from all over the dataset: neighbours in length have no padding
OVER_TIME = (nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.modules.batchnorm._BatchNorm)
# Of answers in another arrangement of the same additions.
MOVED = Threshold(
    1e-4,
    "share of the greatest answer: sums of 1000 numbers of float32 differ by some 1e-5 in another arrangement, by a "
    "hundredth and more where another token or sample takes part",
    factor=10.0,
)


@dataclass
class Answers:
    """What a network answers to a batch, in eval mode.

    Args:
        loss: of the batch.
        call: the one call that compares answers with class indices; None where there is none, or more than one.
        over_time: types of the layers that read neighbours or go on from position to position, such as convolutions.
    """

    batch: Any
    loss: float
    call: CriterionCall | None
    over_time: list[str]

    def classification(self) -> CriterionCall:
        """Return `call`.

        Raises:
            CannotJudge: there is none.
        """
        if self.call is None:
            raise CannotJudge("not exactly one cross_entropy or nll_loss compares answers with class indices")
        return self.call


@dataclass
class MorePadding:
    """A batch with more of the padding that it has.

    Args:
        leaf: place of the largest sequence in the batch.
        loss: of the batch; padded: with more padding.
        moved: by how much answers differ at positions that are no padding, or for whole sequences, as a share of the
            greatest; None where no criterion shows them.
        counted: whether a criterion is given answers at positions of padding, so that its mean may change with them.
        over_time: types of the layers that may read padding on purpose.
        place: of the criterion, or of the step.
    """

    leaf: str
    loss: float
    padded: float
    moved: float | None
    counted: bool
    over_time: list[str]
    place: Place = NOWHERE

    @property
    def where(self) -> Place:
        return self.place.beside(loader="train_dataloader", note=self.leaf)


@once
def answers(step: Step) -> Answers:
    """Return what the network answers to a batch of sequences, padded ones where the dataset has them.

    Raises:
        CannotJudge: the step does not repeat.
    """
    looked, batch, kinds = look(step), padded_batch(step), set()
    with ExitStack() as hooks:
        for module in looked.module.modules():
            if isinstance(module, OVER_TIME):
                add = after_forward(module, lambda module, *_: kinds.add(type(module).__name__))
                hooks.callback(add.remove)
        loss, call = answered(looked, batch)
    again, other = answered(looked, batch)
    if loss != again or (call is None) is not (other is None):
        raise CannotJudge("the step has another loss when it is run again with the same batch and random numbers")
    return Answers(batch, loss, call, sorted(kinds))


def padded_batch(step: Step) -> Any:
    """Return a batch of samples from all over the dataset, where sequences of the step's batch have one length."""
    if any(map(is_of_tokens, leaves(step.batch).values())) and next(longer(step, step.batch), None) is None:
        try:
            with of_the_project("the dataset, asked for other samples,"):
                return train_split(step).spread(SPREAD, step.trainer)
        except CannotJudge:
            pass  # the step's own will do
    return step.batch


@once
def more_padding(step: Step) -> list[MorePadding]:
    """Return what the network does with more padding.

    Raises:
        CannotJudge: no part of the batch has padding that is known as such.
    """
    seen, looked, found = answers(step), look(step), []
    for leaf, batch in longer(step, seen.batch):
        loss, criteria = compared(looked, batch)
        other, length = criteria.classification, leaves(batch)[leaf].shape[1]
        moved = None if seen.call is None or other is None else moved_by(leaf, seen.batch, seen.call, other)
        counted = any(length in call.input.shape[1:] for call in criteria.calls)
        place = step.place if seen.call is None else seen.call.place
        found.append(MorePadding(leaf, seen.loss, loss, moved, counted, seen.over_time, place))
    if not found:
        raise CannotJudge("no part of the batch is a sequence of tokens with padding")
    return found


@torch.no_grad()
def compared(look: Look, batch: Any) -> tuple[float, Criteria]:
    """Return the loss, and what criteria were given."""
    criteria = Criteria()
    with isolate_rng(), Tracer(look.module, criteria):
        seed_all()
        loss = float(look.loss_of(batch).detach())
    return loss, criteria


def answered(look: Look, batch: Any) -> tuple[float, CriterionCall | None]:
    """Return the loss, and the one call that compares answers with class indices, without what made them."""
    loss, criteria = compared(look, batch)
    call = criteria.classification
    return loss, None if call is None else call.detached


def scores(call: CriterionCall) -> Tensor:
    """Return answers as (positions, classes), in the order of the targets."""
    return call.input.movedim(min(1, call.input.ndim - 1), -1).reshape(-1, call.num_classes)


def is_of_tokens(leaf: Tensor) -> bool:
    return leaf.ndim == 2 and is_whole(leaf)


def longer(step: Step, batch: Any) -> Iterator[tuple[str, Any]]:
    """Yield the place of each padded sequence, and the batch with more padding there, where it is known how.

    What fills up is known where another part of the batch ends with it, a further sequence is filled up with it, too,
    or an embedding has it as its padding_idx.
    """
    parts = {path: leaf for path, leaf in leaves(batch).items() if leaf.ndim and not leaf.is_complex()}
    tokens = [(path, leaf) for path, leaf in parts.items() if is_of_tokens(leaf)]
    done: set[str] = set()
    ends = {path: int(leaf[:, -1].mode().values) for path, leaf in tokens if is_filled_up(leaf)}
    fillers = {filler for filler, sequences in Counter(ends.values()).items() if sequences > 1}
    fillers |= {each.padding_idx for each in step.pl_module.modules() if isinstance(each, nn.Embedding)}
    for path, leaf in sorted(tokens, key=lambda each: -len(each[1].unique())):
        if path in done or path not in ends:
            continue
        length, runs, filler = leaf.shape[1], trailing(leaf), ends[path]
        others = [each for name, each in parts.items() if name != path]
        # What fills up one sequence surely fills up the other one, too.
        if filler not in fillers and not any(confirms(each, runs, length) for each in others):
            continue
        if any(length in each.shape[2:] for each in parts.values()):
            return  # as of a mask of pairs: which way it goes on is not known
        longer = {name: with_more(each) for name, each in parts.items() if each.ndim > 1 and each.shape[1] == length}
        done |= set(longer)
        fillers.add(filler)
        yield path, replaced(batch, longer)


def trailing(leaf: Tensor) -> Tensor:
    """Return for each row of (B, T, ...) how many positions at its end have the value that most rows end with."""
    return filled(leaf).long().flip(1).cumprod(1).sum(1)


def filled(leaf: Tensor) -> Tensor:
    """Return where rows of (B, T, ...) have the value that most of them end with, (B, T)."""
    flat = leaf.reshape(len(leaf), leaf.shape[1], -1)
    return (flat == flat[:, -1, 0].mode().values).all(2)


def is_filled_up(leaf: Tensor) -> bool:
    """Whether rows of (B, T) end with a value so many times as they are shorter, and have it nowhere else."""
    runs = trailing(leaf)
    return len(runs.unique()) > 1 and int(runs.min()) <= 1 and torch.equal(filled(leaf).sum(1), runs)


def confirms(leaf: Tensor, runs: Tensor, length: int) -> bool:
    """Whether another part of the batch ends where the sequences do: lengths, a mask, targets, further features."""
    if leaf.ndim == 1:
        return len(leaf) == len(runs) and bool((leaf == length - runs).all())
    if len(leaf) != len(runs) or leaf.shape[1] != length:
        return False
    return len((trailing(leaf) - runs).unique()) == 1


def with_more(leaf: Tensor) -> Tensor:
    filler = leaf.reshape(len(leaf), leaf.shape[1], -1)[:, -1, 0].mode().values
    return torch.cat([leaf, filler.expand(len(leaf), ADDED, *leaf.shape[2:]).to(leaf.dtype)], 1)


def moved_by(leaf: str, batch: Any, call: CriterionCall, other: CriterionCall) -> float | None:
    """Return by how much answers differ, at positions that are no padding where there is one at each position."""
    one, two, tokens = scores(call), scores(other), leaves(batch)[leaf]
    if one.shape == two.shape:
        return float(differences(one, two).max())
    rows = len(tokens)
    if one.shape[0] % rows or two.shape[0] - one.shape[0] != rows * ADDED:
        return None
    one, two = (each.reshape(rows, -1, each.shape[-1]) for each in (one, two))
    kept = one.shape[1]
    real = torch.arange(kept, device=one.device) < (kept - trailing(tokens).to(one.device))[:, None]
    return float(differences(one, two[:, :kept])[real].detach().max())


def differences(one: Tensor, other: Tensor) -> Tensor:
    """Return for each position, (..., classes), by how much answers differ, as a share of the greatest of all."""
    return (one - other).abs().amax(-1) / one.abs().amax().clamp_min(1e-12)
