"""Training on one batch, again and again."""

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.engines.criteria import Criteria, CriterionCall
from training_checklist.engines.trial import Trial, exchanged
from training_checklist.lab.shared import Subject, once
from training_checklist.lightning import LightningModule, Trainer, isolate_rng
from training_checklist.probe import CannotJudge

FURTHER = 3  # times max_steps, of a copy that goes on where the loss comes to its goal in them as fast as it falls
AVERAGED = 10  # last losses, of a step that draws at random
RISEN = 0.5  # of its first value: noise of dropout or of small batches moves the loss of one batch by less
EXCHANGES = 6  # of targets, whose mean loss counts: single ones may leave much where it was
BF16 = 1 / 64  # relative: bfloat16 keeps 8 bits of a number, and of criterion and loss each is rounded to that
SAME = 1e-5  # relative, of float32 in a criterion: answers that differ by no more are one


class OneBatch(Subject):
    """What comes of training on one batch.

    A loss that is no classification's has to be lower than it is with targets exchanged among the samples, which is no
    less than that of the best answer for all of them.

    Args:
        max_loss: the loss that memorising must reach, above the least that the criterion allows.
        min_accuracy: the accuracy that it must reach, where the task is a classification.
        min_fall: share of the first loss by which any other loss must fall, and of that for exchanged targets by which
            it must be lower.
        learnt: share of any other first loss, and of that for exchanged targets, at which training ends.
        settled: last steps, in all of which it must be there.
        nearly: share of a classification's loss that may be left where it still falls and every answer is right.
        max_steps: optimizer steps after which it is given up.
        patience: optimizer steps without a new best loss, after which it is given up too.
        least_gain: share by which a lower loss is a new best.
        seconds: after which it is given up without a verdict.

    Attributes:
        batch: as the training step gets it.
        criterion: the classification of the first step; None where there is none with one label a sample.
        origin: what trials begin from; None where the network cannot be copied.
        uncopied: why a copy could not be made, or asked.
        losses: of the steps: of the classification alone, where there is one.
        totals: of the steps.
        shares: of a regression's criteria with the targets exchanged.
        goal: the loss to be reached, above the least that the criterion allows; None without a classification.
        grad_norm: of the first step; None where no parameter got a gradient.
        update: of all weights in the first step, relative to their norm.
        steps: that the optimizer took.
        distinct: what else is memorised, where the batch is not: the samples that repeat no id, or those inputs that
            the first step has drawn.
    """

    criterion: CriterionCall | None
    pl_module: LightningModule
    trainer: Trainer
    share: float | None  # of the loss for one another's targets, once training is over: one answer for all has 1

    def __init__(
        self,
        max_loss: float,
        min_accuracy: float,
        min_fall: float,
        learnt: float,
        settled: int,
        nearly: float,
        max_steps: int,
        patience: int,
        least_gain: float,
        seconds: float,
    ) -> None:
        self.max_loss, self.min_accuracy, self.min_fall = max_loss, min_accuracy, min_fall
        self.learnt, self.settled, self.nearly = learnt, settled, nearly
        self.max_steps, self.patience, self.least_gain, self.seconds = max_steps, patience, least_gain, seconds
        self.batch: Any = None
        self.origin: Trial | None = None
        self.uncopied = self.distinct = ""
        self.has_no_least = False  # whether the criterion is a variant without class probabilities
        self.is_measured = False  # whether a classification is only looked at, and no part of the loss
        self.losses: list[float] = []
        self.totals: list[float] = []
        self.shares: list[float] = []
        self.best, self.best_step, self.steps, self.deadline = math.inf, 0, 0, math.inf
        self.goal: float | None = None
        self.accuracy: float | None = None
        self.grad_norm: float | None = None
        self.update = 0.0

    def classification(self, criteria: Criteria) -> CriterionCall | None:
        """Return the classification that the loss is made of, or None."""
        return None if self.is_measured else criteria.classification

    def look_at_criterion(self, call: CriterionCall | None) -> None:
        """Learn what the criterion allows at best."""
        self.criterion = call
        if call is not None:
            try:
                self.goal = least(call) + self.max_loss
            except (RuntimeError, ValueError):
                self.goal, self.has_no_least = self.max_loss, True

    def record(self, loss: Tensor, criteria: Criteria, steps: int) -> None:
        """Keep what a step came to."""
        call = self.classification(criteria)
        self.losses.append(value_of(call, loss))
        self.totals.append(float(loss))
        share = None if self.goal is not None else share_of_exchanged(criteria)
        self.shares += [] if share is None else [share]
        self.steps = steps
        if self.losses[-1] < self.best - self.least_gain * abs(self.best) or math.isinf(self.best):
            self.best, self.best_step = self.losses[-1], steps

    def reaches(self, losses: list[float], accuracy: float | None, shares: list[float]) -> bool:
        """Whether what memorising asks for is reached: a classification's goal, or half of any other first loss."""
        if self.goal is None:
            fallen = losses[0] - max(losses[-self.settled :]) > self.learnt * abs(losses[0])
            return fallen and max(shares[-self.settled :], default=0.0) <= self.learnt
        return losses[-1] <= self.goal and (accuracy is None or accuracy >= self.min_accuracy)

    @property
    def is_over(self) -> bool:
        """Whether no further step is needed."""
        given_up = self.steps - self.best_step >= self.patience or not math.isfinite(self.losses[-1])
        return given_up or self.reaches(self.losses, self.accuracy, self.shares)

    @property
    def nears_its_goal(self) -> bool:
        """Whether a classification comes to its goal in `FURTHER` runs, where it falls on as fast as in the last third.

        A rate for hours of training is a low one for some hundred steps.
        """
        third = self.max_steps // 3
        if self.goal is None or self.memorised or len(self.losses) <= third + AVERAGED:
            return False
        fallen = sum(self.losses[-third - AVERAGED : -third]) / AVERAGED - self.last
        return third * (self.last - self.goal) < FURTHER * self.max_steps * fallen

    @property
    def last(self) -> float:
        """The mean of the last losses."""
        return sum(self.losses[-AVERAGED:]) / len(self.losses[-AVERAGED:])

    @property
    def fall(self) -> float:
        fall = self.losses[0] - self.last
        return fall if math.isfinite(fall) else -math.inf

    @property
    def is_right(self) -> bool:
        return self.accuracy is not None and self.accuracy >= self.min_accuracy

    @property
    def is_still_falling(self) -> bool:
        return self.best_step > 0 and self.steps - self.best_step < self.patience

    @property
    def is_constant(self) -> bool:
        """Whether one answer for all samples would have as low a loss."""
        return self.share is not None and self.share > 1 - self.min_fall

    @property
    def fits_others(self) -> bool:
        """Whether it is so for all that has been learnt: others' targets have a loss below that of the start."""
        return self.is_constant and self.last < self.share * self.losses[0]

    @property
    def is_nearly_constant(self) -> bool:
        """Whether one answer for all samples would have as low a loss, and they do not all get the same."""
        return self.is_constant and abs(1 - self.share) > SAME

    @property
    def has_learnt_half(self) -> bool:
        """Whether a classification's loss has come down by half, as far as any other has to, and is still falling."""
        is_far = self.goal is not None and not self.memorised and self.last <= self.learnt * self.losses[0]
        return is_far and self.is_still_falling

    @property
    def is_on_its_way(self) -> bool:
        """Whether it is still coming down to the best answer for all samples."""
        return not self.memorised and self.is_nearly_constant and self.is_still_falling

    @property
    def memorised(self) -> bool:
        """Whether all answers are right, and the loss next to its least value where it has no other terms.

        Without a classification: whether the loss has halved, and is far below that of one answer for all samples.
        """
        is_constant = self.is_constant  # which is not known before training is over
        if self.distinct or (self.is_right and not in_proportion(self.losses, self.totals)):
            return True  # other terms of a loss may pull at the same answers: these are not as sure as one likes
        if self.is_right and self.is_still_falling and self.is_near(self.losses[-1]):
            return True  # so it is where a rate is low, or most of a network is frozen
        fell = self.goal is None and self.fall > self.min_fall * abs(self.losses[0])
        return (fell or self.reaches(self.losses, self.accuracy, self.shares)) and not is_constant

    def is_near(self, loss: float) -> bool:
        lowest = -math.inf if self.goal is None else self.goal - self.max_loss
        return loss - lowest <= self.nearly * (self.losses[0] - lowest) < math.inf

    def has_risen_to(self, loss: float) -> bool:
        return not loss <= self.losses[0] + RISEN * abs(self.losses[0]) < math.inf

    @property
    def course(self) -> str:
        if self.has_risen_to(self.last):
            return "diverged"
        return "was still falling" if self.is_still_falling else "stalled"

    @property
    def standing(self) -> str:
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.3f}"
        return f"loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g}{accuracy}"

    @property
    def failure(self) -> str:
        return f"one batch could not be memorised: {self.standing} after {self.steps} steps; it {self.course}"

    def share_by_hand(self, trained: Trial | None) -> float | None:
        """Return the loss as a share of that with targets exchanged, where the step calls no criterion that is known.

        None where nothing of the batch is only compared with, or the loss is none of errors: it may be less than 0.
        """
        if trained is None or not trained.module.automatic_optimization:
            return None
        with isolate_rng():
            try:
                targets = trained.targets(self.batch)
                if not targets:
                    return 1.0 if trained.answers_alike(self.batch) else None
                others = trained.mean([*exchanged(self.batch, targets, EXCHANGES)])
                return trained.mean([self.batch]) / others if others > 0 else None
            except Exception as error:  # of the project's step, which the run would not have called here
                self.uncopied = f"a copy of the network cannot be asked: {type(error).__name__}: {error}"
                return None


def value_of(call: CriterionCall | None, loss: Tensor) -> float:
    """Return the mean of a classification's criterion over the labels, or else the loss, which may hold other terms."""
    return float(loss) if call is None or call.result is None else call.mean


def criterion_of(call: CriterionCall, answers: Tensor, target: Tensor | None = None, **options: Any) -> Tensor:
    """Return what a criterion comes to with other answers, targets or options."""
    target = call.target if target is None else target
    return getattr(functional, call.name)(answers, target, **(options or call.options))


@torch.no_grad()
def share_of_exchanged(criteria: Criteria) -> float | None:
    """Return what a regression's criteria come to, as a share of what they come to with the targets of other samples.

    One answer for all samples has a share of 1. None where there is none, or all samples have one target.
    """
    here = there = 0.0
    for call in criteria.calls:
        size = len(call.target) if call.target.ndim else 0
        learns = call.result is not None and call.result.requires_grad
        if not learns or size < 2 or call.input.shape != call.target.shape or call.num_classes is not None:
            continue
        generator = torch.Generator().manual_seed(0)
        orders = [torch.randperm(size, generator=generator).to(call.target.device) for _ in range(EXCHANGES)]
        if not (call.target == call.target[:1]).all():
            here += float(call.result.mean())
            others = [criterion_of(call, call.input, call.target[order]).mean() for order in orders]
            there += float(torch.stack(others).mean())
    return here / there if there > 0 else None


def in_proportion(values: list[float], totals: list[float]) -> bool:
    """Whether losses are a criterion's values, times a factor that stays the same."""
    factor = totals[0] / values[0] if values[0] else math.nan
    pairs = zip(values, totals, strict=True)
    return all(abs(total - factor * value) <= BF16 * abs(total) for value, total in pairs)


@torch.no_grad()
def least(call: CriterionCall) -> float:
    """Return the least value that a criterion of class indices allows, as the mean over labels.

    With label smoothing it is the entropy of the smoothed labels (Szegedy et al. 2016), and not 0.
    """
    classes, smoothing = call.num_classes, call.options.get("label_smoothing", 0.0)
    weight = call.options.get("weight")
    wanted = torch.full_like(call.input, smoothing / classes, dtype=torch.float32)
    labels = call.target.clamp(0, classes - 1).long().unsqueeze(1)
    wanted.scatter_add_(1, labels, torch.full_like(wanted, 1 - smoothing))
    wanted = wanted if weight is None else wanted * weight
    # The answer that is best is in the proportion of what is wanted.
    best = (wanted / wanted.sum(1, keepdim=True).clamp_min(1e-30)).clamp_min(1e-30).log()
    return replace(call, result=criterion_of(call, best)).mean


@once
def silent_samples(batch: OneBatch) -> Tensor:
    """Return whether each sample pulls on nothing, compared with the same criterion without its options.

    Every sample pulls at an answer that is the same for all classes: towards its own label.

    Raises:
        CannotJudge: the loss is of no classification, or of one without class probabilities.
    """
    call = batch.criterion
    if call is None or batch.has_no_least:
        raise CannotJudge("the loss is of no criterion that compares logits with one class a sample")
    pulls = []
    for options in (call.options, {"reduction": "sum"}):
        with torch.enable_grad():
            even = torch.full_like(call.input, -math.log(call.num_classes), dtype=torch.float32).requires_grad_()
            (slope,) = torch.autograd.grad(criterion_of(call, even, **options).sum(), even)
        pulls.append(slope.abs().amax(1))
    asked_for = (call.target >= 0) & (call.target < call.num_classes)
    return asked_for & (pulls[0] < SAME * pulls[1] / len(call.target))


def has_silent_samples(batch: OneBatch) -> bool:
    return batch.criterion is not None and not batch.has_no_least and bool(silent_samples(batch).any())
