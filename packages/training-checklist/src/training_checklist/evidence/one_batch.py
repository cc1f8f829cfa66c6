"""What came of training on one batch again and again, and of trials in which one thing was different."""

import math
from dataclasses import dataclass, field

from training_checklist.finding import NOWHERE, Place

RATE, DECAY, CLIPPING = "optimizer.lr", "optimizer.weight_decay", "trainer.gradient_clip_val"
BY_HAND, SAME_DRAWS, ZEROS = "steps without hooks and callbacks", "same random numbers", "zeros for inputs"
SAME = 1e-5  # relative, of float32 in a criterion: answers that differ by no more are one


@dataclass
class OneTrial:
    """A short training from the same weights on the same batch, with one thing changed.

    Args:
        change: RATE, DECAY, CLIPPING, SAME_DRAWS, ZEROS, or BY_HAND: nothing but the steps, without hooks or schedule.
        loss: the least mean of it.
        steps: that it took.
        memorised: whether it has reached what the run had to reach.
        value: of what was changed, in the run.
        given: in the trial.
    """

    change: str
    loss: float
    steps: int
    memorised: bool = False
    value: float | None = None
    given: float | None = None

    def __str__(self) -> str:
        return f"{self.steps} steps with a loss of {self.loss:.4g} in the end"


@dataclass
class SilentSamples:
    """Samples of which the criterion asks nothing: at an answer that knows nothing, their gradient is 0.

    Args:
        silent: how many.
        of: how many there are.
        classes: that they have.
        options: of the criterion, as they were given: "cross_entropy(ignore_index=0)".
    """

    silent: int
    of: int
    classes: list[int]
    options: str
    place: Place = NOWHERE


@dataclass
class OneBatch:
    """Training on one batch.

    Args:
        losses: of the steps.
        steps: that the optimizer took.
        memorised: all answers right, and the loss next to its least value where it has no other terms; without a
            classification a loss that has halved, and is far below that of one answer for all samples.
        accuracy: None where no classification with one label a sample was seen.
        goal: the loss to be reached, above the least that the criterion allows; None without a classification.
        still_falling: whether it was still on its way down.
        grad_norm: of the first step; None where no parameter got a gradient.
        update: of the first step, relative to the weights' norm.
        noise: how far the losses of the same weights differ with other random numbers.
        unheld: parameters that train and that no optimizer holds.
        all_same: whether all samples of the batch have the same inputs.
        silent: whether the criterion asks nothing of some samples.
        share: of the loss that answers have for one another's targets; None where it is not known. One answer for all
            samples has 1.
        is_constant: whether that is no less than 1, as far as it must be.
        around: the project's own hooks around a step, and callbacks.
        step: where `training_step` is.
        trials: None where none was made, for `reason`.
    """

    losses: list[float]
    steps: int = 0
    memorised: bool = False
    accuracy: float | None = None
    goal: float | None = None
    still_falling: bool = False
    grad_norm: float | None = 1.0
    update: float = 1e-3
    noise: float = 0.0
    unheld: list[str] = field(default_factory=list)
    all_same: bool = False
    silent: bool = False
    share: float | None = None
    is_constant: bool = False
    around: Place = NOWHERE
    step: Place = NOWHERE
    trials: list[OneTrial] | None = None
    reason: str = ""

    @property
    def last(self) -> float:
        """The mean of the last losses."""
        return sum(self.losses[-10:]) / len(self.losses[-10:])

    @property
    def fall(self) -> float:
        fall = self.losses[0] - self.last
        return fall if math.isfinite(fall) else -math.inf

    @property
    def has_risen(self) -> bool:
        """Whether the loss was well above its first value at some time, or no number."""
        return not all(loss <= self.losses[0] + 0.5 * abs(self.losses[0]) for loss in self.losses)

    @property
    def is_right(self) -> bool:
        """Whether every answer is right, and only the loss has not reached its goal."""
        return self.accuracy == 1.0 and not self.memorised and self.course != "diverged"

    @property
    def is_on_its_way(self) -> bool:
        """Whether it is still coming down to the best answer for all samples, and these do not all get the same."""
        return self.is_constant and self.still_falling and abs(1 - self.share) > SAME

    @property
    def course(self) -> str:
        if not math.isfinite(self.last) or self.last > self.losses[0] + 0.5 * abs(self.losses[0]):
            return "diverged"
        return "was still falling" if self.still_falling else "stalled"

    @property
    def standing(self) -> str:
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.3f}"
        return f"loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g}{accuracy}"

    @property
    def failure(self) -> str:
        return f"one batch could not be memorised: {self.standing} after {self.steps} steps; it {self.course}"

    def explains(self, trial: OneTrial) -> bool:
        """Whether a trial does what the run does not: it memorises, or halves the loss where the run fell by less."""
        first = self.losses[0]
        if not math.isfinite(trial.loss) or trial.change == ZEROS:
            return False
        if self.goal is not None:
            return trial.memorised or trial.loss - self.goal < (min(self.losses) - self.goal) / 2
        if self.is_constant:
            return trial.memorised and trial.loss < self.last / 2
        return trial.memorised and first - trial.loss > max(2 * self.fall, self.noise)

    def explanation(self, change: str) -> OneTrial | None:
        """Return the trial that a change of this kind makes succeed, or None."""
        return next((each for each in self.trials or [] if each.change == change and self.explains(each)), None)
