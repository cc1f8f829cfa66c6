"""Learning rate schedules: rehearsed on copies for the whole run, and their real calls counted."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import pairwise
from types import FrameType
from typing import Any
from unittest.mock import patch

from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR
from torchmetrics import Metric

from training_checklist.direction import attribute_of, better_of_class
from training_checklist.engines.instead import put
from training_checklist.engines.logged import names_of
from training_checklist.engines.own_code import is_own, is_own_class, pass_on
from training_checklist.engines.own_config import in_files
from training_checklist.engines.places import of_frame, of_function
from training_checklist.engines.rehearsal import AT_ITS_END, rehearse, waits_for_a_metric
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.examples import Example, Small, loader
from training_checklist.lab.shared import Subject
from training_checklist.lightning import LightningModule, Trainer
from training_checklist.probe import CannotJudge, Fix, Limits, Threshold

LONGER = 10  # times as long as the run, within which the end of a decay is looked for
MOST = 500_000  # calls that are rehearsed, in one or two seconds; of a part of a run nobody knows where it leads
FLOOR = 0.1  # of its peak: where a decay may end, as `schedule/at-its-floor` has it
OFF = 1e-6  # of its peak, by rounding
EVERY = {"step": "a batch", "epoch": "an epoch"}
SHOWN = ("step_size", "gamma", "milestones", "T_max", "total_steps", "total_iters")


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
        made_for: calls that it is made for, as its arguments say, or the decay of its function where that ends after
            the run, or turns within it; NaN where none does.
        is_cycle: whether these calls are one cycle, after which it is over.
        is_cosine: whether it is one CosineAnnealingLR, alone or after a warm-up, or a function that turns as it does.
        error: what ended it too early, "" for nothing.
        accumulated: batches of a step of the optimizer.
        base: the highest rate that the optimizer was made with; NaN where that is not known.
        first_change: the call that first changes a rate, as far as the longer of the Trainer's two limits, max_steps
            and max_epochs, would let it come; NaN where none does, or there is one limit.
        cut: how many times as long the run is without the limits that the command line has put over those of files.
        made_in: where configure_optimizers is.
        stepped_at: where the module steps it by hand; None where Lightning does.
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
    is_cosine: bool = False
    error: str = ""
    base: float = math.nan
    accumulated: int = 1
    first_change: float = math.nan
    cut: float = 1.0
    made_in: Place = NOWHERE
    stepped_at: Place | None = None

    def __post_init__(self) -> None:
        self.calls = self.per_epoch * self.epochs
        self.uncut = self.calls * self.cut  # calls of the run that the project's files ask for
        self.rates = self.course[: int(self.calls) + 1]  # that the run goes through
        self.run = f"{self.steps} steps in {self.epochs:g} epochs"
        how = f"with interval={self.interval}" if self.stepped_at is None else f"stepped once {EVERY[self.interval]}"
        self.place = (self.stepped_at or self.made_in).beside(note=f"lr_scheduler {self.schedule} {how}")
        self.gets = f"it is made for {self.made_for} calls and gets {self.calls:.0f}: the run has {self.run}"

    def stepped(self, interval: str) -> Fix | None:
        """Return how to step it at another interval, where the module steps it; None where Lightning does."""
        return None if self.stepped_at is None else Fix(f"call its step() once {EVERY[interval]}")

    def floor(self, limits: Limits) -> int | None:
        """Return the call from which the rate stays at its floor, long before the run ends, after a smooth decay."""
        rates, peak = self.rates, max(self.rates)
        end = len(rates) - 1
        while end and rates[end - 1] == rates[-1]:
            end -= 1
        ratio = (len(rates) - 1) / max(end, 1)
        divided = self.accumulated > 1 and abs(ratio / self.accumulated - 1) < limits.max_rounding
        if self.error or rates[-1] > limits.max_lr_floor * peak or (ratio < limits.many and not divided):
            return None
        top = max(call for call, rate in enumerate(rates) if rate == peak)
        falls = all(later < earlier for earlier, later in pairwise(rates[top : end + 1]))
        start = top
        if top - rates.index(peak) <= 1:  # a warm-up that leads into a decay, of which it may leave a call or two
            start = rates.index(peak)
            while start and rates[start - 1] < rates[start]:
                start -= 1
        # An exponential decay has no floor: it goes on until float64 has no smaller number.
        is_smooth = falls and end - start >= limits.min_smooth
        return end if is_smooth and rates[end - 1] >= sys.float_info.min else None

    def is_floor_after_epochs(self, floor: int | None, limits: Limits) -> bool:
        """Whether its floor comes after as many batches as the run has epochs."""
        return self.interval == "step" and floor is not None and near(floor, self.epochs, limits)


MANY = Threshold(
    3.0,
    "times as long, from which on lengths are of different units: units differ by the batches of an epoch, and a run "
    "that was cut to half or a third for a try is no mistake",
    factor=1.5,
)
SPLIT = Threshold(
    0.2,
    "of a length, by which another may differ that is meant to be the same: the share of the training data that is "
    "split off for validation after a schedule's length was set",
    factor=2.0,
)
ROUNDED = Threshold(
    0.05, "share by which a length may differ from an even part of the run: of 20 steps, one", factor=2.0
)
SMOOTH = Threshold(
    5,
    "calls in a row that change the rate: schedules in steps have three or four milestones, apart from one another (He "
    "et al. 2016, Zagoruyko and Komodakis 2016)",
    factor=2.0,
)


def near(whole: float, length: float, limits: Limits) -> bool:
    """Whether two lengths are meant to be one: a run may be cut a little differently than its schedule was."""
    return abs(whole - length) <= limits.max_split * length


@dataclass
class Calls:
    """How often a schedule was stepped while the run lasted.

    Args:
        turns: that Lightning gave it, by interval and frequency.
        within: calls of step() in these turns.
        by_hand: other calls.
        manual: whether the module steps its optimizers itself, so that nobody else steps this.
        early: whether the first one came before the optimizer's first step.
        trained: whether its optimizer has made a step at all: of several, the turn of one may come later.
        place: the first line of the project's own code that makes them.
    """

    schedule: str
    turns: int = 0
    within: int = 0
    by_hand: int = 0
    manual: bool = False
    early: bool = False
    trained: bool = False
    place: Place = NOWHERE


class Schedules(Subject):
    """What becomes of the lr_schedulers of a run.

    Args:
        untold: why none can be rehearsed, or "".
        of_other_length: why the run is not as long as the project's own, or "".
        rehearsed: those whose length is known, before training begins.
        batch: the first one, for hooks that write a setting along a schedule of their own.
        calls: of each, when training is over.
        made: rates that the groups of each optimizer were made with, by its id.
        peaks: rates that they come to at their highest, likewise.
    """

    trainer: Trainer
    untold: str
    of_other_length: str = ""
    rehearsed: list[Rehearsal]
    batch: Any
    calls: list[Calls]
    made_with: dict[int, list[float]]
    peaks: dict[int, list[float]]

    @property
    def rehearsals(self) -> list[Rehearsal]:
        """Those whose length is known.

        Raises:
            CannotJudge: there is none, or the run is not as long as the project's own.
        """
        self.ask_for_length()
        if not self.rehearsed:
            raise CannotJudge(self.untold or "there is no lr_scheduler whose length is known")
        return self.rehearsed

    def ask_for_length(self) -> None:
        if self.of_other_length:
            raise CannotJudge(self.of_other_length)

    @property
    def place(self) -> Place:
        return of_function(type(self.trainer.lightning_module).configure_optimizers)


def scheduled(
    make: Callable[[Optimizer], Any],
    interval: str = "step",
    epochs: int = 5,
    batch_size: int = 4,
    lr: float = 0.01,
    trainer: dict[str, Any] | None = None,
    **config: Any,
) -> Example:
    """Make a run of 8 batches an epoch whose optimizer has a schedule; the checks of its learning rate are brief."""

    class Scheduled(Small):
        def configure_optimizers(self) -> Any:
            optimizer = SGD(self.parameters(), lr)
            return [optimizer], [{"scheduler": make(optimizer), "interval": interval, **config}]

    brief = {"samples": 4, "steps": 1, "max_steps": 1, "seconds": 0}
    return Example(
        Scheduled, partial(loader, batch_size), trainer={"max_epochs": epochs, **(trainer or {})}, item=brief
    )


def by_factor(factor: Callable[[int], float], *arguments: Any, **options: Any) -> Example:
    """Make one whose rate is that of the optimizer, times a function of the call."""
    return scheduled(lambda optimizer: LambdaLR(optimizer, factor), *arguments, **options)


def along(*points: tuple[int, float], **options: Any) -> Example:
    """Make one whose factor goes along lines from point to point, and stays at the last."""

    def factor(call: int) -> float:
        for (start, low), (end, high) in pairwise(points):
            if call < end:
                return low + (high - low) * (call - start) / (end - start)
        return points[-1][1]

    return by_factor(factor, **options)


def times_cut(trainer: Trainer) -> float:
    """Return how many times as long the run would be without what the command line has typed over in the files.

    And with all the batches of its loader, of which a try takes few.
    """
    limits, batches, whole = (trainer.max_epochs, trainer.max_steps), trainer.num_training_batches, 0
    longer = [own / limit for limit in limits if limit is not None and limit > 0 for own in in_files(limit)]
    with suppress(TypeError, NotImplementedError):  # of a loader without a length
        whole = max(map(len, trainer.fit_loop._combined_loader.flattened), default=0)
    return max([1.0, *longer]) * (max(1.0, whole / batches) if batches else 1.0)


def rehearsal(config: Any, trainer: Trainer, cut: float) -> tuple[Rehearsal, list[float]] | None:
    """Return how a schedule will go, and the peak rate of each of the optimizer's groups; None without a known end.

    Args:
        config: Lightning's `LRSchedulerConfig`.
        cut: as of `Rehearsal`.
    """
    batches, accumulated = trainer.num_training_batches, trainer.accumulate_grad_batches
    steps = trainer.estimated_stepping_batches
    if not (math.isfinite(batches) and math.isfinite(steps)) or waits_for_a_metric(config):
        return None
    # Lightning counts batches, anew in each epoch, and steps a schedule at steps of the optimizer.
    stepping = [number for number in range(1, batches + 1) if number % accumulated == 0 or number == batches]
    by_step = sum(number % config.frequency == 0 for number in stepping)
    per_epoch = by_step if config.interval == "step" else 1 / config.frequency
    epochs = steps / len(stepping)
    calls = int(per_epoch * epochs)
    if max(calls, steps) > MOST:
        raise CannotJudge(f"the run has {steps} steps, and no more than {MOST:,} are rehearsed")
    groups, error = rehearse(config.scheduler, trainer.lightning_module, calls)
    is_whole = error or calls >= steps
    further = groups if is_whole else rehearse(config.scheduler, trainer.lightning_module, int(steps))[0]
    end = end_of_decay(config.scheduler, trainer.lightning_module, groups) if config.interval == "step" else None
    turn = turn_of_function(config.scheduler, [max(rates) for rates in groups])
    told = (getattr(config.scheduler, name, None) for name in ("total_steps", "T_max"))
    made_for = next(filter(None, told), end or turn or math.nan)
    parts = [config.scheduler, *getattr(config.scheduler, "_schedulers", [])]  # of SequentialLR
    found = Rehearsal(
        shown(config.scheduler),
        config.interval,
        config.frequency,
        batches,
        steps,
        epochs,
        per_epoch,
        [max(rates) for rates in max(groups, further, key=len)],
        made_for,
        hasattr(config.scheduler, "total_steps") or end is not None,
        turn is not None or sum(type(each) is CosineAnnealingLR for each in parts) == 1,
        error,
        max(getattr(config.scheduler, "base_lrs", None) or [math.nan]),
        accumulated,
        first_change(config.scheduler, trainer, per_epoch / len(stepping), len(stepping)),
        cut,
        of_function(type(trainer.lightning_module).configure_optimizers),
    )
    return found, [max(rates) for rates in zip(*groups, strict=True)]


def end_of_decay(scheduler: Any, pl_module: LightningModule, groups: list[list[float]]) -> int | None:
    """Return the call with which a function's decay is over, where that comes after the run; None of others.

    Within some times the length of the run: what is longer was hardly meant for one like it.

    Args:
        groups: its rates in the run, as `rehearse` returns them.
    """
    calls = len(groups)
    if type(scheduler) is not LambdaLR or calls < 2 or not max(groups[-1]) < max(groups[-2]):
        return None
    course = [max(rates) for rates in rehearse(scheduler, pl_module, min(LONGER * calls, MOST))[0]]
    end = next((call for call, (now, then) in enumerate(pairwise(course)) if call >= calls and now == then), None)
    if end is None or len({*course[end:]}) > 1:
        return None
    peak = max(course)
    top = max(call for call, rate in enumerate(course) if rate == peak)
    return end if all(then < now for now, then in pairwise(course[top : end + 1])) else None


def turn_of_function(scheduler: Any, rates: list[float]) -> int | None:
    """Return the call at which a function turns, as a cosine does after half a period: it goes back as it came.

    None of others, and of those that turn far above the ground, as cycles may.
    """
    if type(scheduler) is not LambdaLR:
        return None
    peak = max(rates)
    top = next(call for call, rate in enumerate(rates) if rate == peak and rates[call + 1 : call + 2] != [peak])
    turn = next((call for call in range(top + 1, len(rates) - 1) if rates[call + 1] > rates[call]), None)
    if turn is None or rates[turn] > FLOOR * peak or turn - top < 2:
        return None
    way = min(turn - top, len(rates) - 1 - turn)
    falls = all(then < now for now, then in pairwise(rates[top : turn + 1]))
    forth, back = rates[turn - way : turn][::-1], rates[turn + 1 :]
    mirrored = all(abs(one - other) < OFF * peak for one, other in zip(forth, back, strict=False))
    return turn if falls and mirrored else None


def first_change(scheduler: Any, trainer: Trainer, calls_per_step: float, steps: int) -> float:
    """Return the call that first changes a rate, were the run as long as the longer of its two limits.

    Args:
        steps: of the optimizer in an epoch.
    """
    if trainer.max_steps <= 0 or trainer.max_epochs is None or trainer.max_epochs <= 0:
        return math.nan
    longest = max(trainer.max_steps, trainer.max_epochs * steps)
    course, _ = rehearse(scheduler, trainer.lightning_module, min(int(calls_per_step * longest), MOST))
    return next((call for call, rates in enumerate(course) if rates != course[0]), math.nan)


def shown(scheduler: Any) -> str:
    options = ", ".join(f"{key}={getattr(scheduler, key)}" for key in SHOWN if hasattr(scheduler, key))
    return f"{type(scheduler).__name__}({options})"


def schedules_of(optimizer: Optimizer, trainer: Trainer) -> list[str]:
    return [shown(each.scheduler) for each in trainer.lr_scheduler_configs if each.scheduler.optimizer is optimizer]


def validated(trainer: Trainer) -> list[str]:
    """Return the names of what the last validation has logged."""
    return sorted(names_of(trainer.fit_loop.epoch_loop.val_loop._results))


def directions(trainer: Trainer) -> dict[str, str | None]:
    """Return "max" or "min" for each metric that was logged, or whose attribute has its name, as its class tells it.

    None where the class is the project's own and does not tell: the name may be that of a metric before it.
    """
    loop, module = trainer.fit_loop.epoch_loop, trainer.lightning_module
    results = names_of(loop._results) | names_of(loop.val_loop._results)
    metrics = {name: getattr(module, attribute_of(name), None) for name in results}
    metrics |= {name: each.value for name, each in results.items() if not each.is_tensor}
    known = {name: (direction(each), each) for name, each in metrics.items() if isinstance(each, Metric)}
    return {name: best for name, (best, each) in known.items() if best is not None or is_own_class(type(each))}


def direction(metric: Any) -> str | None:
    """Return "max" or "min" as a metric says, or the name of its class where it says nothing: `RelativeError`."""
    more = getattr(metric, "higher_is_better", None)
    if more is None:
        return better_of_class(type(metric).__name__)
    return "max" if more else "min"


class RatesOfGroups:
    """While it is entered, keeps the rates that optimizers are made with, group by group."""

    def __init__(self) -> None:
        self.made: dict[int, list[float]] = {}

    def __enter__(self) -> "RatesOfGroups":
        inner = Optimizer.add_param_group

        def add_param_group(optimizer: Optimizer, group: dict[str, Any]) -> None:
            pass_on(inner, optimizer, group)
            self.made.setdefault(id(optimizer), []).append(float(optimizer.param_groups[-1].get("lr") or 0))

        self.watching = patch.object(Optimizer, "add_param_group", add_param_group)
        self.watching.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.watching.stop()


def is_told_the_epoch(step: Callable[..., Any], scheduler: Any, arguments: Any, options: Any) -> bool:
    """Whether a schedule's step() is given an epoch, as timm's always is, and torch's could be once."""
    with suppress(TypeError, ValueError):  # of one without a signature
        return signature(step).bind(scheduler, *arguments, **options).arguments.get("epoch") is not None
    return False


class CallCounter:
    """Counts the calls of each schedule's step(), in the turns that Lightning gives it and beside them.

    Args:
        goes_on: whether the run is longer than the project's own, so that a schedule may have come to its end.
    """

    def __init__(self, trainer: Trainer, goes_on: bool = False) -> None:
        self.trainer, self.turn, self.goes_on = trainer, False, goes_on
        self.stepping: list[Any] = []
        self.calls = {
            id(each.scheduler): Calls(shown(each.scheduler), manual=not trainer.lightning_module.automatic_optimization)
            for each in trainer.lr_scheduler_configs
        }
        self.schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]

    @contextmanager
    def counting(self, pl_module: LightningModule) -> Iterator[None]:
        hook = pl_module.lr_scheduler_step

        def in_turn(scheduler: Any, *arguments: Any, **options: Any) -> Any:
            if id(scheduler) in self.calls:
                self.calls[id(scheduler)].turns += 1
            self.turn = True
            try:
                return pass_on(hook, scheduler, *arguments, **options)
            finally:
                self.turn = False

        # On their classes: a scheduler's own attributes are part of its state, and of checkpoints.
        kinds = list(dict.fromkeys(type(scheduler) for scheduler in self.schedulers))
        steps = [(kind, vars(kind).get("step"), kind.step) for kind in kinds]
        put_back = put(pl_module, "lr_scheduler_step", in_turn)
        for kind, _, step in steps:
            kind.step = self._counted(step)
        hooks = [
            scheduler.optimizer.register_step_post_hook(partial(self._trained, id(scheduler)))
            for scheduler in self.schedulers
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            put_back()
            for kind, earlier, _ in steps:
                if earlier is None:
                    del kind.step
                else:
                    kind.step = earlier

    def _trained(self, scheduler: int, *_: Any) -> None:
        self.calls[scheduler].trained = True

    def _counted(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(scheduler: Any, *arguments: Any, **options: Any) -> Any:
            calls = self.calls.get(id(scheduler))
            if calls is None or scheduler in self.stepping:  # another's, or one that calls its parent class's
                return pass_on(step, scheduler, *arguments, **options)
            is_early = calls.within + calls.by_hand == 0 and self.trainer.global_step == 0
            before = getattr(scheduler, "last_epoch", None)
            # One that is told the epoch is where that says, however often.
            told = is_told_the_epoch(step, scheduler, arguments, options)
            calls.within += self.turn and not (told and calls.within >= calls.turns)
            calls.by_hand += not self.turn and not (told and calls.turns > 0)
            frame: FrameType = sys._getframe(1)
            if is_own(frame.f_code.co_filename) and calls.place == NOWHERE:
                calls.place = of_frame(frame)
            self.stepping.append(scheduler)
            try:
                with suppress(*AT_ITS_END if self.goes_on else ()):
                    return pass_on(step, scheduler, *arguments, **options)
            finally:
                self.stepping.pop()
                # One that is told the epoch may be put where it stands.
                calls.early |= is_early and getattr(scheduler, "last_epoch", None) != before

        return counted
