"""Copies of a network that does not memorise a batch, each trained on it with one thing changed."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.batches import batch_size, leaves, same
from training_checklist.engines.compared import replaced
from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.replay import seed_all
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.engines.trial import CLIPPING, DECAY, NO_OPTIMIZER, RATE, Trial, equal, without_inputs
from training_checklist.lab.one_batch import FURTHER, OneBatch, has_silent_samples, share_of_exchanged, value_of
from training_checklist.lab.shared import once
from training_checklist.lightning import isolate_rng
from training_checklist.probe import CannotJudge

TRIED = 100  # steps of a trial, after as many of which the run itself is given up if its loss falls no further
BY_HAND, SAME_DRAWS, ZEROS = "steps without hooks and callbacks", "same random numbers", "zeros for inputs"
START, ON, MEMORY = "another start", "further steps", "buffers as they began"
# A copy without hooks has got somewhere that the run has not where it has come ten times as far in as many steps, and a
# fifth of the way; a schedule, which it has not either, would change that by less.
FASTER, FAR = 10.0, 0.2
LOWER = [0.1, 0.01, 0.001, 0.0001]
BY_TURNS = [10.0, 0.1, 100.0, 0.01, 1000.0, 0.001, 1e4, 1e5]


@dataclass
class Tried:
    """A short training from the same weights on the same batch, with one thing changed.

    Args:
        change: RATE, DECAY, CLIPPING, SAME_DRAWS, ZEROS, or BY_HAND: nothing but the steps, without hooks or schedule;
            START: the numbers of each weight in another order, so that its scale, and what is 0, stays; ON: nothing,
            from where the run has ended; MEMORY: what steps leave for later ones is put back.
        value: of what was changed, in the run.
        given: in the trial.
        loss: the least mean of it.
        steps: that it took.
        memorised: whether it has reached what the run had to reach.
    """

    change: str
    value: float | None = None
    given: float | None = None
    loss: float = math.nan
    steps: int = 0
    memorised: bool = False

    def __str__(self) -> str:
        return f"{self.steps} steps with a loss of {self.loss:.4g} in the end"

    def explains(self, batch: OneBatch) -> bool:
        """Whether a trial does what the run does not: it memorises, or halves the loss where the run fell by less."""
        if not math.isfinite(self.loss) or self.change == ZEROS:
            return False
        if self.change == RATE and self.given > self.value and batch.has_learnt_half:
            return False  # it is faster, which says nothing against a rate that is for more steps
        if self.change == BY_HAND and batch.goal is not None and self.steps <= len(batch.losses):
            fell, run_fell = (batch.losses[0] - each for each in (self.loss, batch.losses[self.steps - 1]))
            if fell > FASTER * max(run_fell, 0.0) and fell > FAR * (batch.losses[0] - batch.goal):
                return True
        if self.change == MEMORY and self.loss < batch.losses[0] < batch.last:
            return True  # how far it should fall is not known, but it need not rise
        if batch.goal is not None:
            return self.memorised or self.loss - batch.goal < (min(batch.losses) - batch.goal) / 2
        if batch.is_constant:
            return self.memorised and self.loss < batch.last / 2
        return self.memorised and batch.losses[0] - self.loss > max(2 * batch.fall, noise(batch))


@once
def noise(batch: OneBatch) -> float:
    """Return how far the losses of the same weights differ with other random numbers."""
    if not batch.origin.module.automatic_optimization:
        return 0.0
    losses = [batch.origin.again().mean([batch.batch], seed) for seed in range(3)]
    return max(losses) - min(losses)


@once
def trials(batch: OneBatch) -> tuple[list[Tried], str]:
    """Train copies with one thing changed, until one does better; return them, and why there are no more.

    There is none where the batch is memorised, or where it is known already why not.
    """
    tried: list[Tried] = []
    if batch.memorised or has_silent_samples(batch) or batch.is_on_its_way or batch.origin is None:
        return tried, batch.uncopied
    if not batch.trainer.optimizers[0].param_groups:
        return tried, NO_OPTIMIZER
    with isolate_rng():
        try:
            if batch.origin.module.automatic_optimization and memorises_distinct(batch):
                return tried, ""
            for each, trial in changes(batch):
                if time.monotonic() > batch.deadline:
                    return tried, f"there was no time for further trials: {batch.seconds:g} s are over"
                given = "" if each.given is None else f"={each.given:.3g}"
                print(f"  overfit: trying {each.change}{given}", flush=True)
                tried.append(each)
                run(batch, each, trial)
                if each.change == BY_HAND and not each.explains(batch) and memorises_later(batch):
                    break
                if each.explains(batch):
                    if each.change == MEMORY:
                        kept = f"{', '.join(trial.still)} holds answers of earlier steps, with which later ones compare"
                        batch.distinct = f"; not judged: {kept}; of one batch these are its own; without: {each}"
                        raise CannotJudge(batch.distinct.removeprefix("; not judged: "))
                    if each.change == SAME_DRAWS and draws_only_inputs(batch):
                        batch.distinct = f"; with the same random numbers in every step it is memorised: {each}"
                    break
        except CannotJudge:
            raise
        except Exception as error:  # of the project's step, which the run would not have called here
            return tried, f"a copy of the network cannot be trained: {type(error).__name__}: {error}"
    return tried, batch.uncopied


def draws_only_inputs(batch: OneBatch) -> bool:
    """Whether the criteria compare with the same, whatever is drawn: a step that augments its inputs, say."""
    targets = []
    for seed in range(2):
        copy = batch.origin.again()
        with isolate_rng():
            seed_all(seed)
            copy.loss(batch.batch)
        targets.append([compared_with(call) for call in copy.criteria.calls])
    return bool(targets[0]) and equal(*targets)


def compared_with(call: CriterionCall) -> Tensor:
    """Return what answers are compared with, on whichever side of a criterion a project has them: `mse_loss(x, y)`."""
    return call.input if call.target.requires_grad and not call.input.requires_grad else call.target


def explanation(batch: OneBatch, change: str) -> Tried | None:
    """Return the trial that a change of this kind makes succeed, or None."""
    return next((each for each in trials(batch)[0] if each.change == change and each.explains(batch)), None)


def is_explained(batch: OneBatch) -> bool:
    return any(each.explains(batch) for each in trials(batch)[0])


def changes(batch: OneBatch) -> Iterator[tuple[Tried, Trial]]:
    """Yield what is to be changed, and a copy in which it is."""
    origin = batch.origin
    yield Tried(BY_HAND), origin.again()
    if origin.clips:
        yield Tried(CLIPPING, origin.trainer.gradient_clip_val), origin.again(CLIPPING)
    if decay := max(origin.options("weight_decay")):
        yield Tried(DECAY, decay, 0.0), origin.again(DECAY, 0.0)
    if noise(batch) > 0:
        trial = origin.again()
        trial.same_draws = True
        yield Tried(SAME_DRAWS), trial
    if left := left_for_later(batch):
        trial = origin.again()
        trial.still = left
        yield Tried(MEMORY), trial
    # Where the loss rose, a rate that is higher still makes it worse.
    has_risen = any(map(batch.has_risen_to, batch.losses))
    rate = max(origin.options("lr"))
    for factor in LOWER if has_risen else BY_TURNS:
        yield Tried(RATE, rate, rate * factor), origin.again(RATE, factor)
    trial = origin.again()
    trial.shuffle_weights()
    yield Tried(START), trial
    if origin.again().targets(batch.batch):  # what is restored from itself would be zeros, too
        yield Tried(ZEROS), origin.again()


def left_for_later(batch: OneBatch) -> list[str]:
    """Return the buffers in which a step leaves rows for later ones, as a queue of keys or a memory of the samples."""
    copy = batch.origin.again()
    tables = {name: buffer.clone() for name, buffer in copy.module.named_buffers() if buffer.ndim > 1}
    copy.take_step(batch.batch)
    return [name for name, before in tables.items() if not torch.equal(copy.module.get_buffer(name), before)]


def run(batch: OneBatch, tried: Tried, trial: Trial, given: Any = None) -> None:
    """Train a copy, until it memorises or cannot."""
    given = batch.batch if given is None else given
    if tried.change == ZEROS:
        given = without_inputs(given, trial.again().targets(given))
    losses, shares = [], []
    # From another start the course is another one, and needs as long as the run's own.
    steps = {START: batch.max_steps, ON: FURTHER * batch.max_steps}.get(tried.change, min(TRIED, batch.max_steps))
    for _ in range(steps):
        if tried.change == ON and time.monotonic() > batch.deadline:
            raise CannotJudge(f"{batch.standing}: it comes down, and {batch.seconds:g} s were too short to see how far")
        loss = trial.take_step(given)
        call = batch.classification(trial.criteria)
        losses.append(value_of(call if batch.goal is not None else None, torch.tensor(loss)))
        share = None if batch.goal is not None else share_of_exchanged(trial.criteria)
        shares += [] if share is None else [share]
        accuracy = None if batch.accuracy is None or call is None else call.accuracy
        tried.memorised = batch.reaches(losses, accuracy, shares)
        is_hopeless = len(losses) == steps // 3 and min(losses) > losses[0] - batch.least_gain * abs(losses[0])
        if tried.memorised or is_hopeless or not math.isfinite(loss):
            break
    if tried.memorised and batch.goal is None and not shares:
        share = batch.share_by_hand(trial)
        tried.memorised = share is None or share <= batch.learnt
    tried.loss = losses[-1] if tried.memorised else sum(losses[-5:]) / len(losses[-5:])
    tried.steps = trial.steps


def memorises_later(batch: OneBatch) -> bool:
    """Whether a copy that goes on where the run has ended memorises the batch; only asked where the loss comes down."""
    if not batch.nears_its_goal:
        return False
    copy, tried = Trial(batch.trainer, batch.pl_module, batch.trainer.optimizers[0]), Tried(ON)
    print(f"  overfit: trying {ON}", flush=True)
    run(batch, tried, copy)
    if tried.memorised:
        batch.distinct = f"; it comes down steadily, and is memorised {tried.steps} steps later"
    return tried.memorised


class Lookups(Listener):
    """Keeps what embeddings are asked for."""

    def __init__(self) -> None:
        self.ids: list[Tensor] = []

    def after(self, call: Call) -> None:
        if call.name == "embedding" and isinstance(index := call.argument("input", 0), Tensor):
            self.ids.append(index)


def memorises_distinct(batch: OneBatch) -> bool:
    """Whether the samples are memorised that repeat no id: the others ask for two answers to one input.

    So it is where users are held against each other's items, and a user comes twice.
    """
    lookups, copy, tried = Lookups(), batch.origin.again(), Tried(BY_HAND)
    with torch.no_grad(), Tracer(batch.origin.module, lookups):
        batch.origin.again().loss(batch.batch)
    given = distinct(batch.batch, lookups.ids)
    if given is None:
        return False
    which = f"{batch_size(given)} of {batch_size(batch.batch)} samples that repeat no id"
    print(f"  overfit: trying the {which}", flush=True)
    run(batch, tried, copy, given)
    call = batch.classification(copy.criteria)
    right = call is not None and call.accuracy is not None and call.accuracy >= batch.min_accuracy
    if tried.memorised or (right and batch.is_near(tried.loss)):
        batch.distinct = f"; the {which} are memorised: {tried}"
    return batch.distinct != ""


def distinct(batch: Any, looked_up: list[Tensor]) -> Any:
    """Return the samples of a batch that repeat no id; None where there are no ids, or none comes twice.

    Args:
        looked_up: what embeddings are asked for: ids are what they get one of for each sample.
    """
    size, known = batch_size(batch), leaves(batch)
    ids = [leaf.tolist() for leaf in known.values() if leaf.ndim == 1 and any(same(leaf, index) for index in looked_up)]
    kept: list[int] = []
    for index in range(size or 0):
        if all(column[index] not in [column[earlier] for earlier in kept] for column in ids):
            kept.append(index)
    if not ids or not 1 < len(kept) < size:
        return None
    return replaced(batch, {path: leaf[kept] for path, leaf in known.items() if leaf.ndim})
