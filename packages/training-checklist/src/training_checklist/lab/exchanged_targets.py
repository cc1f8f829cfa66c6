"""What validation logs of a copy that has learnt, for the true targets and for those of other samples."""

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import torch

from training_checklist.engines.batches import batch_size, leaves, same
from training_checklist.engines.compared import ROUNDING, has_half, heard_answers, replaced
from training_checklist.engines.logged import logged_by
from training_checklist.engines.stand_in import stand_in
from training_checklist.engines.trial import exchanged
from training_checklist.lab.shared import limits_of, of_the_project, once
from training_checklist.lab.trained_copies import (
    EXCHANGES,
    batches,
    copies,
    labels_of_copies,
    origin,
    range_test,
)
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import LightningModule
from training_checklist.probe import CannotJudge

NOTHING_LEARNT = "what a copy learns says nothing about samples that it has not seen"
SAMPLES = 256  # of validation, which are exchanged with one another


@dataclass
class WithTargets:
    """A value that validation logs of a copy that has learnt.

    Args:
        right: with the true targets.
        wrong: with targets exchanged among the samples, in the mean.
        deviations: by how many standard deviations of such exchanges it is higher with the true ones.
        before: of a copy that has learnt nothing, with the true targets.
        better: whether more or less of it is better, "max" or "min", as training has made it; None where none shows.
    """

    right: float
    wrong: float
    deviations: float
    before: float = math.nan
    better: str | None = None


@once
def with_exchanged_targets(run: TwoEpochs) -> dict[str, WithTargets]:
    """Return what validation logs with true and with exchanged targets, by name.

    Raises:
        CannotJudge: no copy learns anything of unseen samples, or validation has no part that is only compared with.
    """
    learner = range_test(run).learner  # from before the first step, if this is asked before it
    split = run.indexed("val")
    if learner is None:
        raise CannotJudge("the loss of no copy falls")
    if has_half(run.pl_module):
        raise CannotJudge("numbers of 16 bits are too coarse to be compared")
    try:
        learns = labels_of_copies(run).unseen >= surely()
    except CannotJudge:
        learns = True  # as far as can be told
    if not learns:
        raise CannotJudge(NOTHING_LEARNT)
    until = time.monotonic() + run.options["seconds"] / 4
    with of_the_project("validation_step, taken again with exchanged targets,"):
        batch = split.spread(SAMPLES, run.trainer)
        untrained = look(origin(run).module, run, batch)
        found = since(untrained, look(learner.module, run, batch))
    while any(each.better is None for each in found.values()):
        if learner.steps >= run.options["max_steps"] or time.monotonic() > until:
            break
        with copies(run):
            learner.train(batches(run), run.options["steps"])  # what validation holds none of these have seen
        with of_the_project("validation_step, taken again with exchanged targets,"):
            found = since(untrained, look(learner.module, run, batch))
    return found


@once
def of_training_samples(run: TwoEpochs) -> dict[str, str | None]:
    """Return by name what validation finds better, "max" or "min", of samples of training."""
    learner, split = range_test(run).learner, run.indexed("train")
    with of_the_project("validation_step, taken with samples of training and exchanged targets,"):
        batch = split.spread(SAMPLES, run.trainer)
        untrained = look(origin(run).module, run, batch)
        return {name: each.better for name, each in since(untrained, look(learner.module, run, batch)).items()}


def surely() -> float:
    """Return the standard deviations from which exchanged targets tell of something that was learnt."""
    return limits_of("learning/labels-unrelated").min_known


def since(untrained: dict[str, WithTargets], found: dict[str, WithTargets]) -> dict[str, WithTargets]:
    """Return what was found of a copy that has learnt, with what is better for it and was not before."""
    return {
        name: replace(each, before=known.right, better=learnt_direction(known.deviations, each.deviations))
        for name, each in found.items()
        if (known := untrained.get(name)) is not None
    }


def learnt_direction(before: float, after: float) -> str | None:
    """Return "max" or "min" by the deviations of a copy before and after; few classes may fit by chance before."""
    is_sure = abs(after) >= surely() and abs(after - before) >= surely()
    is_gained = (after > before) == (after > 0)
    return None if not is_sure or not is_gained else "max" if after > 0 else "min"


def look(module: LightningModule, run: TwoEpochs, batch: Any) -> dict[str, WithTargets]:
    copy, began = stand_in(module, run.trainer).eval(), time.monotonic()
    known = logged_by(copy, "val", batch)[0]
    if (time.monotonic() - began) * EXCHANGES > run.options["seconds"] / 4:
        raise CannotJudge("validation_step takes too long to be taken so often")
    targets = only_compared(copy, batch)
    if not targets:
        raise CannotJudge("nothing in a batch of validation is only compared with")
    exchanges = [*exchanged(batch, targets, EXCHANGES)]
    if all(same(leaves(each)[path], leaves(batch)[path]) for each in exchanges for path in targets):
        raise CannotJudge("all samples of validation have the same target, or it has one sample")
    others = [logged_by(copy, "val", each)[0] for each in exchanges]
    return {
        name: compared(right, torch.tensor([other[name] for other in others]))
        for name, right in known.items()
        if all(name in other for other in others)
    }


def only_compared(copy: LightningModule, batch: Any) -> list[str]:
    """Return the places of what no layer sees, so that its answers stay where it is exchanged.

    Where all is seen, as by two towers, one of two parts of which each has answers of its own: what is compared is
    whether they belong together.
    """

    def answers(given: Any) -> list[str]:
        with heard_answers(copy) as seen:
            logged_by(copy, "val", given)
        return seen

    known, size = answers(batch), batch_size(batch)
    moved: dict[str, set[int]] = {}
    for path, leaf in leaves(batch).items() if known else ():
        if leaf.ndim and len(leaf) == size and not is_padding_mask(leaf):
            others = enumerate(zip(known, answers(replaced(batch, {path: leaf.roll(1, 0)})), strict=False))
            moved[path] = {index for index, (one, other) in others if one != other}

    def are_two_towers(one: str, other: str) -> bool:
        """Whether each has answers of its own; a code beside a sequence is rather what that is made for."""
        kinds = {leaves(batch)[path].ndim > 1 for path in (one, other)}
        return len(kinds) == 1 and bool(moved[one] - moved[other] and moved[other] - moved[one])

    unseen = [path for path, answered in moved.items() if not answered]
    return unseen or [one for one in moved if any(are_two_towers(one, each) for each in moved)][:1]


def is_padding_mask(leaf: torch.Tensor) -> bool:
    """Whether a tensor, (N, T), holds 1 for the first steps of each sample, and 0 for the rest."""
    if leaf.ndim != 2 or leaf.shape[1] < 2 or leaf.is_complex():
        return False
    known = leaf.int()
    return bool(((leaf == 0) | (leaf == 1)).all() and (known[:, 1:] <= known[:, :-1]).all() and not leaf.all())


def compared(right: float, others: torch.Tensor) -> WithTargets:
    wrong = float(others.mean())
    is_same = abs(right - wrong) <= ROUNDING * abs(wrong)
    return WithTargets(right, wrong, 0.0 if is_same else (right - wrong) / max(float(others.std()), 1e-9))
