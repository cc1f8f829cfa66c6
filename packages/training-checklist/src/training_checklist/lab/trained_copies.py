"""The "loss does not fall" routine: short trainings on copies of the network, before a run has made its first step."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm, _NormBase

from training_checklist.engines.batches import batch_size, leaves
from training_checklist.engines.compared import ROUNDING, Look, replaced
from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.fingerprints import digest
from training_checklist.engines.trial import CLIPPING, DECAY, DRAWN, RATE, NoLoss, Trial, exchanged
from training_checklist.lab.shared import known, limits_of, of_the_project, once
from training_checklist.lab.two_epochs import TwoEpochs
from training_checklist.lightning import combined, isolate_rng
from training_checklist.probe import CannotJudge

# Share of its first value to which the loss on some batches falls as they are learnt by heart. One answer for all
# samples does not come so far: at best it has the loss of chance, which an untrained network begins with.
LEARNT = 0.5
CORRELATED = 0.5  # with their inputs: targets of which less is told are hardly what a network is to learn
EXCHANGES = 20  # of labels: of 8, the deviation is so vague that 4 of them came about by chance once in 12 trials
FEW = 6  # exchanges are enough for a first look, where the effect is twice as sure as it must be
MAX_BATCHES = 64  # to train on: of 8 samples or more, they hold the 512 that are asked for
# Factors of a rate: a range test by powers of ten, which is how far apart rates must be to tell.
HIGHER, LOWER = [10.0**power for power in range(1, 6)], [0.1, 0.01, 0.001]
UNTOLD = "no part of a batch is known to be only what answers are compared with"


@dataclass
class Course:
    """A short training of a copy: as configured, or with one setting changed.

    Args:
        before: mean loss on the batches that it is trained on.
        after: the same after `steps`.
        fall: by which share of `before` it has fallen.
        change: the setting's key, "" as configured.
        value: that is configured.
        given: instead, None for switched off.
    """

    before: float
    after: float
    fall: float
    steps: int
    change: str = ""
    value: float = 0.0
    given: float | None = None

    def __str__(self) -> str:
        return f"{self.before:.4g} -> {self.after:.4g} in {self.steps} steps"


@dataclass
class RangeTest:
    """Trainings of copies until one falls.

    Args:
        asked: as configured.
        tried: with one setting changed.
        min_fall: share of the loss from which on a training counts as one that falls.
        grad_norm: of the first step.
        learner: the copy that has learnt, None where none has.
        out_of_time: whether there was no time to try all that might help.
        moved: buffers that the step itself has moved, those of norms aside: the loss may be made of them.
    """

    asked: Course
    tried: list[Course] = field(default_factory=list)
    min_fall: float = 0.05
    grad_norm: float = 1.0
    learner: Trial | None = None
    out_of_time: bool = False
    moved: list[str] = field(default_factory=list)

    def better(self, times: float) -> Course | None:
        """Return the training with a change that falls, and so many times as far as what was asked for, or None."""
        if self.asked.fall >= self.min_fall:
            return None
        falls = max(self.min_fall, times * self.asked.fall)
        return next((each for each in self.tried if each.fall >= falls), None)


@dataclass
class Labels:
    """A copy that has learnt some batches, asked about exchanged labels.

    Args:
        course: its training.
        batches: that it was trained on.
        known: by how many standard deviations of such exchanges the loss rises for samples that it was trained on; Inf
            where that need not be asked.
        unseen: for others.
        learnt: whether the loss has fallen to half.
    """

    course: Course
    batches: int
    known: float
    unseen: float
    learnt: bool


@once
def batches(run: TwoEpochs) -> list[Any]:
    """Return twice as many samples of training as are asked for, or what there is, as the training step gets them."""
    run.ask_for_one_optimizer()
    trainer, pl_module, wanted = run.trainer, run.pl_module, 2 * run.options["samples"]
    loader = combined(trainer.fit_loop._data_source.dataloader())
    found, samples, until = [], 0, time.monotonic() + run.options["seconds"] / 4
    with isolate_rng():
        for batch, _, _ in islice(loader, 2 * MAX_BATCHES):
            batch = pl_module._on_before_batch_transfer(trainer.precision_plugin.convert_input(batch))
            found.append(trainer.strategy.batch_to_device(batch, dataloader_idx=0))
            samples += batch_size(batch) or 1
            if samples >= wanted or time.monotonic() > until:
                break
    return found


@once
def origin(run: TwoEpochs) -> Trial:
    """Return a copy that nobody has trained, at the rates that the optimizer begins with."""
    run.ask_for_one_optimizer()
    return Trial(run.trainer, run.pl_module, run.trainer.optimizers[0])


@contextmanager
def copies(run: TwoEpochs) -> Iterator[None]:
    """Inside, what a copy raises is none of the run's affair; once one was trained, exchanged samples are to blame."""
    try:
        with isolate_rng(), of_the_project("a copy of the network, which is trained,"):
            yield
    except CannotJudge as reason:
        if reason.__cause__ is not None and known(run, range_test) is None:
            run.untrained = str(reason)
        raise
    except NoLoss as error:
        run.untrained = f"no copy of the network could be trained: {error}"
        raise CannotJudge(run.untrained) from error


@once
def first_losses(run: TwoEpochs) -> tuple[float, list[CriterionCall], Any]:
    """Return the loss of the first batch, the calls of criteria that have made it, and the batch."""
    with copies(run):
        batch, trial = batches(run)[0], origin(run).again()
        loss = float(trial.loss(batch).detach())
        trial.criteria.detach()
        run.facts["first_loss"] = loss
        call = trial.criteria.classification
        if call is None:
            run.notes.append(f"first loss {loss:.4g}")
        else:
            chance = math.log(call.num_classes)
            run.facts["chance"] = chance
            run.notes.append(f"first loss {loss:.4g}, ln {call.num_classes} = {chance:.4g}")
        return loss, trial.criteria.calls, batch


@once
def inputs_of_copies(run: TwoEpochs) -> set[str]:
    """Return the places in a batch that copies are given: their answers change where it belongs to other samples.

    And where its values are a little others: by what says which samples have a label, answers are only chosen.
    """
    with copies(run):
        batch, trial = batches(run)[0], origin(run).again()
        look = Look(trial.module, trial.loss)
        known = look.at(batch)[1]
        rolled = {path: leaf.roll(1, 0) for path, leaf in leaves(batch).items() if leaf.ndim}
        other = {path: nudged(leaf) for path, leaf in leaves(batch).items()}

        def is_input(path: str) -> bool:
            try:
                return all(look.at(replaced(batch, {path: each[path]}))[1] != known for each in (rolled, other))
            except Exception as error:  # of a batch that the project would not make: no copy is to blame
                raise CannotJudge(f"with values of other samples in {path} a step raises {error}") from None

        return {path for path in rolled if is_input(path)}


def nudged(leaf: Tensor) -> Tensor:
    """Return a tensor with other fractions, by a thousandth, and the same whole numbers; moved, where it has no others.

    A whole number may be a mark, as -1 is for a label that nobody knows.
    """
    if not leaf.is_floating_point() or torch.equal(leaf, leaf.round()):
        return leaf.roll(1, 0) if leaf.ndim else leaf
    return torch.where(leaf == leaf.round(), leaf, leaf * 1.001)


@once
def range_test(run: TwoEpochs) -> RangeTest:
    """Train copies until the loss of one falls, as configured or changed.

    Raises:
        CannotJudge: the loss need not fall.
    """
    first_losses(run)
    run.deadline = time.monotonic() + run.options["seconds"]
    with copies(run):
        trained = origin(run).again()
        groups = run.trainer.optimizers[0].param_groups
        # A warm-up may begin with 0, and where it leads to need not be known.
        made_with = [float(group.get("initial_lr") or group["lr"]) for group in groups]
        rates = run.peaks.get(id(run.trainer.optimizers[0]), made_with)
        rates = rates if max(rates) > 0 else made_with
        # A rate that a warm-up leads to may be too high at first, but it must not be too low.
        warms_up = max(rates) > 2 * max(trained.options("lr"))
        trained.set_rates(rates)
        if trained.draws_its_answers(batches(run)[0]):
            run.notes.append(DRAWN)
            raise CannotJudge(DRAWN)
        return search(run, trained, batches(run)[: half(run)], warms_up)


def half(run: TwoEpochs) -> int:
    """Return how many of the batches copies are trained on: the others they have not seen."""
    return math.ceil(len(batches(run)) / 2)


def unseen_batches(run: TwoEpochs) -> list[Any]:
    return batches(run)[half(run) :]


def search(run: TwoEpochs, origin: Trial, known: list[Any], warms_up: bool) -> RangeTest:
    """Return what was tried, and a copy for which the loss falls, as configured or changed."""
    steps, min_fall, max_steps = (run.options[name] for name in ("steps", "min_fall", "max_steps"))
    asked = origin.again()
    fall = -math.inf
    while fall < min_fall and asked.steps < 3 * steps:  # it may have to settle first
        fall = asked.train(known, steps)
    rate = max(origin.options("lr"))
    found = RangeTest(course(asked, fall), min_fall=min_fall, grad_norm=asked.grad_norm or 0.0)
    run.facts |= {"rate": rate, "fall": fall}
    learner, others = asked if fall >= min_fall else None, []
    for change, value, given, factor in [] if learner else changes(origin, fall < -min_fall, warms_up):
        if time.monotonic() > run.deadline:
            break
        print(f"  learning: trying {change}={'null' if given is None else f'{given:.3g}'}", flush=True)
        trial = origin.again(change, factor)
        fall = trial.train(known, steps if factor else asked.steps)
        found.tried.append(course(trial, fall, change, value, given))
        others.append((fall, len(others), trial))
        if fall >= min_fall:
            learner = trial
            break
    # A network that begins with a good answer, as one that adds nothing to its input, has little to gain at first.
    while learner is None and asked.steps < max_steps and time.monotonic() < run.deadline:
        fall = asked.train(known, steps)
        found.asked = course(asked, fall)
        learner = asked if fall >= min_fall else None
    _, index, best = max(others, default=(0.0, 0, asked))
    while learner is None and best.steps < asked.steps and time.monotonic() < run.deadline:
        fall, before = best.train(known, steps), found.tried[index]
        found.tried[index] = course(best, fall, before.change, before.value, before.given)
        learner = best if fall >= min_fall else None
    run.notes.append(f"loss {found.asked} on {len(known)} batches")
    found.learner, found.out_of_time = learner, time.monotonic() > run.deadline
    found.moved = moved_buffers(origin.module, asked.module)
    return found


def moved_buffers(one: nn.Module, other: nn.Module) -> list[str]:
    """Return the names of buffers that differ in two copies, without those of norms."""
    pairs = zip(one.named_modules(), other.modules(), strict=True)
    owners = [(path, a, b) for (path, a), b in pairs if not isinstance(a, _NormBase)]
    return [
        f"{path}.{name}".lstrip(".")
        for path, a, b in owners
        for name, value in a.named_buffers(recurse=False)
        if value.is_floating_point() and digest(value) != digest(b.get_buffer(name))
    ]


@once
def labels_of_copies(run: TwoEpochs) -> Labels:
    """Compare the loss of a copy that learns on samples that it was not trained on with that for exchanged labels."""
    test, limits = range_test(run), limits_of("learning/labels-unrelated")
    known, unseen, learner = batches(run)[: half(run)], unseen_batches(run), test.learner
    if learner is None:
        raise CannotJudge("the loss of no copy falls")
    with copies(run):
        targets = learner.targets(known[0])
        if not targets:
            raise CannotJudge(UNTOLD)
        too_few_labels = too_few(known, targets, limits.samples_per_class, learner.criteria.classification)
        if not unseen or too_few_labels or too_small(unseen, targets, limits.min_known):
            raise CannotJudge("there are too few samples to tell whether labels belong to them")
        raised, deviations = effect(run, learner, unseen, targets, FEW)
        if deviations < 2 * limits.min_known:
            raised, deviations = effect(run, learner, unseen, targets)
        while deviations < limits.min_known and not has_learnt(run, learner, known, targets):
            if learner.steps >= run.options["max_steps"] or time.monotonic() > run.deadline:
                break
            learner.train(known, run.options["steps"])
            # What is learnt by heart may take the place of what has held for others before.
            now = effect(run, learner, unseen, targets)
            raised, deviations = max((raised, deviations), now, key=itemgetter(1))
        found = Labels(course(learner, 0.0), len(known), math.inf, deviations, False)
        if deviations < limits.min_known:
            found.known = effect(run, learner, known, targets)[1]
            found.learnt = has_learnt(run, learner, known, targets)
        run.notes.append(f"exchanged labels raise the loss on unseen samples by {raised:.3g}")
        run.facts |= {"effect_of_labels": raised, "deviations": found.unseen}
        return found


@once
def effect_of_labels(run: TwoEpochs) -> float:
    """Return by which share some exchange of labels changes the loss of the samples that a copy was trained on.

    Their mean may be nothing where a copy has hardly begun to learn.

    Raises:
        CannotJudge: that is known to be more than nothing, or nothing in a batch is only compared with.
    """
    test = range_test(run)
    try:
        found = None if test.learner is None else labels_of_copies(run)
    except CannotJudge as reason:
        if str(reason) != UNTOLD:
            raise
        found = None
    if found is not None and found.known >= limits_of("learning/labels-unrelated").min_known:
        raise CannotJudge("exchanged labels change the loss, so that inputs have an effect")
    with copies(run):
        seen = batches(run)[: half(run)]
        trial = (test.learner or origin(run)).again()
        if test.learner is None:  # a last layer that begins with zeros hears nothing of the inputs before it has a step
            trial.train(seen, run.options["steps"])
        trial.module.eval()  # dropout would make samples differ whose outputs do not
        for part in trial.module.modules():
            if isinstance(part, _BatchNorm):  # whose running statistics lag behind in so short a training
                part.train()
        try:
            targets = trial.targets(seen[0])
            is_blind = not targets and trial.answers_alike(seen[0])
        except Exception as error:  # no run trains in eval mode: a detector of torchvision has no losses there
            raise CannotJudge(f"training_step cannot be taken in eval mode: {error!r}") from None
        if targets:
            right, wrong = with_exchanged(run, trial, seen, targets, EXCHANGES)
            return float((wrong - right).abs().max()) / max(abs(right), 1e-12)
        if is_blind:
            return 0.0
        raise CannotJudge(UNTOLD)


def changes(origin: Trial, rises: bool, warms_up: bool) -> list[tuple[str, float, float | None, float]]:
    """Return what to try: a setting, its value, what is given instead, and the factor between them."""
    found: list[tuple[str, float, float | None, float]] = []
    if origin.clips and origin.trainer.gradient_clip_val:
        found.append((CLIPPING, float(origin.trainer.gradient_clip_val), None, 0.0))
    if any(origin.options("weight_decay")):
        found.append((DECAY, max(origin.options("weight_decay")), 0.0, 0.0))
    # Where the loss rises, a rate that is higher still makes it worse.
    lower, higher = [] if warms_up else LOWER, [] if rises else HIGHER
    by_turns = [factor for pair in zip_longest(higher, lower) for factor in pair if factor is not None]
    rate = max(origin.options("lr"))
    return [*found, *((RATE, rate, rate * factor, factor) for factor in by_turns)]


def course(trial: Trial, fall: float, change: str = "", value: float = 0.0, given: float | None = None) -> Course:
    return Course(trial.before, trial.after, fall, trial.steps, change, value, given)


def effect(
    run: TwoEpochs, trial: Trial, batches: list[Any], targets: list[str], number: int = EXCHANGES
) -> tuple[float, float]:
    """Return by how much exchanged targets raise the loss: in its own units, and in deviations of such exchanges.

    Raises:
        CannotJudge: it took longer than copies may be trained.
    """
    right, wrong = with_exchanged(run, trial, batches, targets, number)
    raised = float(wrong.mean()) - right
    if abs(raised) < ROUNDING * abs(right):
        return raised, 0.0
    return raised, raised / max(float(wrong.std()), 1e-9)


def with_exchanged(
    run: TwoEpochs, trial: Trial, batches: list[Any], targets: list[str], number: int
) -> tuple[float, Tensor]:
    """Return the loss with the targets as they are, and (number,) with those of other samples."""
    right, losses = trial.mean(batches), []
    for each in zip(*(exchanged(batch, targets, number) for batch in batches), strict=True):
        if time.monotonic() > run.deadline + run.options["seconds"]:
            raise CannotJudge("there was no time to compute the loss with exchanged targets (checks.learning.seconds)")
        losses.append(trial.mean(list(each)))
    return right, torch.tensor(losses)


def has_learnt(run: TwoEpochs, trial: Trial, known: list[Any], targets: list[str]) -> bool:
    """Whether the loss has come to half of its first value, and of that for exchanged targets.

    Half of the first alone may be the mean of the targets.
    """
    if trial.after > LEARNT * trial.before:
        return False
    return trial.after <= LEARNT * (trial.after + effect(run, trial, known, targets, FEW)[0])


def too_few(batches: list[Any], targets: list[str], per_class: int, criterion: CriterionCall | None) -> bool:
    """Whether some class has too few samples for anything about it to be learnt."""
    labels = [leaves(batch)[path] for batch in batches for path in targets if path in leaves(batch)]
    if any(label.is_floating_point() for label in labels):
        return False
    together = torch.cat([label.flatten() for label in labels])
    if criterion is not None:
        together = together[together != criterion.ignored]
    return len(together) < per_class * len(together.unique())


def too_small(unseen: list[Any], targets: list[str], sure: float) -> bool:
    """Whether so few samples would not show that numbers belong to them.

    Exchanges of n samples tell a correlation r by r * sqrt(n) standard deviations.
    """
    numbers = any(leaves(unseen[0])[path].is_floating_point() for path in targets if path in leaves(unseen[0]))
    return numbers and sum(batch_size(batch) or 1 for batch in unseen) < (sure / CORRELATED) ** 2
