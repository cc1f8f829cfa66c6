"""How learning rate schedules go: rehearsed for the whole run, and counted while it ran."""

import math
import sys
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from training_checklist.finding import NOWHERE, Place


@dataclass
class Rehearsal:
    """A schedule, stepped on a copy as often as Lightning will step it.

    Args:
        schedule: "StepLR(step_size=1, gamma=0.5)".
        interval: "step" or "epoch".
        frequency: of `interval`, at which it is stepped.
        batches: in an epoch.
        steps: of the optimizer in the run.
        epochs: of the run.
        per_epoch: calls in an epoch.
        course: the highest rate of any group before each call, as long as if every step were a call.
        made_for: calls that it is made for, as its arguments say; NaN where none does.
        is_cycle: whether these calls are one cycle, after which it is over.
        error: what ended it too early, "" for nothing.
        accumulated: batches of a step of the optimizer.
        base: the highest rate that the optimizer was made with; NaN where that is not known.
        first_change: the call that first changes a rate, as far as the longer of the Trainer's two limits, max_steps
            and max_epochs, would let it come; NaN where none does, or there is one limit.
        made_in: where configure_optimizers is.
    """

    schedule: str
    interval: str
    frequency: int
    batches: float
    steps: float
    epochs: float
    per_epoch: float
    course: list[float]
    made_for: float = math.nan
    is_cycle: bool = False
    error: str = ""
    base: float = math.nan
    accumulated: int = 1
    first_change: float = math.nan
    made_in: Place = NOWHERE

    @property
    def calls(self) -> float:
        return self.per_epoch * self.epochs

    @property
    def rates(self) -> list[float]:
        """The rates that the run goes through."""
        return self.course[: int(self.calls) + 1]

    @property
    def floor(self) -> int | None:
        """The call from which the rate stays at its floor, long before the run ends, after a smooth decay."""
        rates, peak = self.rates, max(self.rates)
        end = len(rates) - 1
        while end and rates[end - 1] == rates[-1]:
            end -= 1
        ratio = (len(rates) - 1) / max(end, 1)
        divided = self.accumulated > 1 and abs(ratio / self.accumulated - 1) < ROUNDED
        if self.error or rates[-1] > FLOOR * peak or (ratio < MUCH and not divided):
            return None
        top = max(call for call, rate in enumerate(rates) if rate == peak)
        falls = all(later < earlier for earlier, later in pairwise(rates[top : end + 1]))
        start = top
        if top - rates.index(peak) <= 1:  # a warm-up that leads into a decay, of which it may leave a call or two
            start = rates.index(peak)
            while start and rates[start - 1] < rates[start]:
                start -= 1
        # An exponential decay has no floor: it goes on until float64 has no smaller number.
        return end if falls and end - start >= SMOOTH and rates[end - 1] >= sys.float_info.min else None

    @property
    def warms_up_to_the_end(self) -> bool:
        """Whether the rate rises from the first step to the last."""
        rates = self.rates
        rises = all(later >= earlier for earlier, later in pairwise(rates)) and rates[-1] > rates[-2:][0]
        smooth = self.interval == "step" and len(rates) > SMOOTH
        return not self.error and smooth and rises and rates[-1] >= 2 * rates[0]

    @property
    def leap(self) -> int | None:
        """The call to which the rate leaps up from a warm-up that has risen along a line; None where none does."""
        rises = list(takewhile(lambda rise: rise > 0, (later - rate for rate, later in pairwise(self.rates))))
        steady = rises[:-1]
        if len(steady) < LINE or max(steady) - min(steady) > ROUNDED * max(steady):
            return None
        return len(rises) if rises[-1] > MUCH * max(steady) else None

    @property
    def floor_after_epochs(self) -> bool:
        """Whether that floor comes after as many batches as the run has epochs."""
        return self.interval == "step" and self.floor is not None and near(self.floor, self.epochs)

    @property
    def run(self) -> str:
        return f"{self.steps} steps in {self.epochs:g} epochs"

    @property
    def place(self) -> Place:
        return self.made_in.beside(note=f"lr_scheduler {self.schedule} with interval={self.interval}")


@dataclass
class Calls:
    """How often a schedule was stepped while the run lasted.

    Args:
        turns: that Lightning gave it, by interval and frequency.
        within: calls of step() in these turns.
        by_hand: other calls.
        manual: whether the module steps its optimizers itself, so that nobody else steps this.
        early: whether the first one came before the optimizer's first step.
        places: lines of the project's own code that make them.
    """

    schedule: str
    turns: int
    within: int
    by_hand: int
    manual: bool = False
    early: bool = False
    places: list[Place] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return self.places[0] if self.places else NOWHERE


@dataclass
class Unheld:
    """Whether a schedule was made for the run's optimizer that nobody has: `place` is configure_optimizers."""

    is_lost: bool
    place: Place = NOWHERE


@dataclass
class GroupRates:
    """The learning rates of an optimizer's groups.

    Args:
        made: that it was made with.
        led_to: the highest that its schedule leads to.
        taken: after some steps.
        schedule: "" for none.
        place: of configure_optimizers.
    """

    made: list[float]
    led_to: list[float]
    taken: list[float]
    schedule: str = ""
    place: Place = NOWHERE


@dataclass
class Plateau:
    """A schedule that waits for a metric.

    Args:
        mode: "min" or "max": what it takes for better.
        wanted: what the metric's name tells, None where it does not.
    """

    metric: str
    mode: str
    wanted: str | None


@dataclass
class PlateauTurns:
    """When a schedule that waits for a metric is stepped in the project's own training, and when the metric is there.

    Args:
        stepped: every so many epochs.
        validated: likewise.
        of_validation: whether validation alone logs the metric.
    """

    metric: str
    stepped: int
    validated: int
    of_validation: bool


# Times as long, from which on lengths are of different units. Units differ by the batches of an epoch, and a run that
# was cut to half or a third for a try is no mistake.
MUCH = 3
ROUNDED = 0.05  # share by which a length may differ from an even part of the run: of 20 steps, one
# Of its peak: what one milestone of MultiStepLR makes of a rate by default. At a higher one, training goes on.
FLOOR = 0.1
# Calls in a row that change the rate. Schedules in steps have three or four milestones, apart from one another (He et
# al. 2016, Zagoruyko and Komodakis 2016).
SMOOTH = 5
LINE = 3  # equal rises in a row that are a line: two of them are what any two epochs make at times
SPLIT = 0.2  # share of the training data that may be split off for validation after a schedule's length was set


def near(whole: float, length: float) -> bool:
    """Whether two lengths are meant to be one: a run may be cut a little differently than its schedule was."""
    return abs(whole - length) <= SPLIT * length
