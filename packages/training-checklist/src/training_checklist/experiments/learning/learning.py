"""The "loss does not fall" routine: short trainings on copies of the network, then two short epochs under watch."""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice, zip_longest
from typing import Any

import torch
from torch import Tensor

from training_checklist import session
from training_checklist.direction import better
from training_checklist.engines.batches import batch_size, leaves
from training_checklist.engines.compared import ROUNDING
from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.left_in_eval import left_in_eval
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.splits import splits
from training_checklist.engines.trial import DRAWN, Trial, exchanged
from training_checklist.evidence.epochs import LeftInEval
from training_checklist.evidence.learning import (
    CLIPPING,
    DECAY,
    RATE,
    AddedUp,
    Chosen,
    Course,
    FirstLoss,
    Inputs,
    Labels,
    LeastGain,
    Length,
    Monitor,
    NeverFell,
    RangeTest,
)
from training_checklist.experiments.experiment import Experiment, exits_are_errors
from training_checklist.experiments.learning.epochs import EpochWatch, norms
from training_checklist.experiments.learning.last_batch import after_another
from training_checklist.experiments.learning.mode_switches import ModeSwitches, Switches
from training_checklist.experiments.learning.perfect_answers import answered
from training_checklist.finding import Finding
from training_checklist.lab.schedules import CallCounter, RatesOfGroups, Rehearsal, Schedules, rehearsal, validated
from training_checklist.lightning import (
    Callback,
    Checkpoint,
    CombinedLoader,
    EarlyStopping,
    LightningModule,
    ProgressBar,
    Trainer,
    isolate_rng,
)

# Share of its first value to which the loss on some batches falls as they are learnt by heart. One answer for all
# samples does not come so far: at best it has the loss of chance, which an untrained network begins with.
LEARNT = 0.5
# Standard deviations from which on an effect of exchanged labels is there. Chance makes that in 4 of 10,000 cases
# (Student's t with EXCHANGES - 1 degrees of freedom).
SURE = 4.0
EXCHANGES = 20  # of labels: of 8, the deviation is so vague that 4 of them came about by chance once in 12 trials
FEW = 6  # exchanges are enough for a first look, where the effect is twice as sure as it must be
# Samples below which a class cannot be learnt from so few: ten events a variable are a regression's least (Peduzzi et
# al., 1996).
PER_CLASS = 10
MAX_BATCHES = 64  # to train on: of 8 samples or more, they hold the 512 that are asked for
# Factors of a rate: a range test by powers of ten, which is how far apart rates must be to tell (evidence/learning.py).
HIGHER, LOWER = [10.0**power for power in range(1, 6)], [0.1, 0.01, 0.001]
UNTOLD = "no part of a batch is known to be only what answers are compared with"
BY_HAND = "the module steps its optimizers itself, so that no learning rate was tried"


class Learning(Experiment):
    """Trains copies of the network on a few batches, and lets the run have two short epochs under watch.

    A copy is trained as configured and, where the loss does not fall, with one thing changed after the other until it
    does. One that has learnt its batches is asked whether it prefers the true labels of samples that it has not seen
    to exchanged ones. Schedules are rehearsed for the length that was asked for.

    Args:
        samples: to train a copy on, and as many to judge it by.
        steps: of the optimizer in one attempt.
        max_steps: until a copy knows its samples by heart.
        min_fall: share of the loss in an attempt, from which on it falls.
        seconds: after which no further attempt begins.
        batches: of each of the run's two epochs.
    """

    item = "learning"
    shapes_run = True
    ends_with_fit = True
    no_workers = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, Checkpoint, ProgressBar)

    def __init__(
        self,
        samples: int,
        steps: int,
        max_steps: int,
        min_fall: float,
        seconds: float,
        batches: int,
        topics: Sequence[str] = (),
    ) -> None:
        super().__init__(topics)
        self.samples, self.steps, self.max_steps, self.min_fall = samples, steps, max_steps, min_fall
        self.seconds, self.batches = seconds, batches
        self.monitors: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.watch: EpochWatch | None = None
        self.counter: CallCounter | None = None
        self.rates, self.schedules = RatesOfGroups(), Schedules()
        self.least_gains: dict[str, float] = {}  # of EarlyStopping, by its metric

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self.monitors = [
                (type(callback).__name__, callback.monitor)
                for callback in trainer.callbacks
                if getattr(callback, "monitor", None) is not None
            ]
            stoppers = [each for each in trainer.callbacks if isinstance(each, EarlyStopping)]
            self.least_gains = {each.monitor: abs(each.min_delta) for each in stoppers}
            self.watching.enter_context(self.rates)
            self.switches = ModeSwitches.current or self.watching.enter_context(Switches())
        super().setup(trainer, pl_module, stage)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.deadline = time.monotonic() + self.seconds
        steps = trainer.estimated_stepping_batches
        whole = steps * trainer.accumulate_grad_batches
        self._judge_length(trainer)
        self.judge(*norms(pl_module, whole))
        is_automatic = pl_module.automatic_optimization and len(trainer.optimizers) == 1
        untold, rehearsed = "" if is_automatic else BY_HAND, []
        if is_automatic:  # else steps are the module's own affair
            with isolate_rng():
                rehearsed = self._rehearse(trainer)
        peaks = {key: rates for key, _, rates in rehearsed}
        known = {"made_with": self.rates.made, "peaks": peaks, "rehearsed": [each for _, each, _ in rehearsed]}
        self.ask(self.probes, self.schedules, trainer=trainer, untold=untold, **known)
        if is_automatic:
            rates = [float(group["lr"]) for group in trainer.optimizers[0].param_groups]
            with isolate_rng():
                self._try(trainer, pl_module, peaks.get(id(trainer.optimizers[0]), rates))
        else:
            self.notes.append(f"two epochs watched; {BY_HAND}")
        self._shorten(trainer, whole)
        self.watch, self.counter = EpochWatch(pl_module, steps, self.switches), CallCounter(trainer)
        trainer.callbacks = [*trainer.callbacks, self.watch]  # Lightning is going through the old list
        self.watching.callback(self.watch.close)
        self.watching.enter_context(self.counter.counting(pl_module))

    def _judge_length(self, trainer: Trainer) -> None:
        batches, epochs = trainer.num_training_batches, trainer.max_epochs
        if trainer.max_steps > 0 and epochs is not None and epochs > 0 and math.isfinite(batches):
            self.judge(Length(trainer.max_steps, epochs, math.ceil(batches / trainer.accumulate_grad_batches)))

    def _shorten(self, trainer: Trainer, whole: float) -> None:
        """Let the run have two epochs, by Lightning's own means: both are to end as epochs do."""
        # A schedule may end with the run, which another item of this run may have shortened.
        batches = self.batches if whole / 2 >= self.batches else max(1, int(whole / 2))
        trainer.limit_train_batches, trainer.fit_loop.max_epochs = batches, trainer.current_epoch + 2
        trainer.fit_loop.min_epochs = trainer.fit_loop.epoch_loop.min_steps = None
        trainer.fit_loop._combined_loader = None
        pass_on(trainer.fit_loop.setup_data)

    def _rehearse(self, trainer: Trainer) -> list[tuple[int, Rehearsal, list[float]]]:
        """Return the id of the optimizer of each schedule, how it will go, and the rates that it leads to."""
        rehearsed = []
        for config in trainer.lr_scheduler_configs:
            try:
                found = rehearsal(config, trainer)
            except Exception as error:  # of a schedule of the project's own, on a copy
                self.notes.append(f"{type(config.scheduler).__name__} not rehearsed: {type(error).__name__}: {error}")
                continue
            if found is not None:
                rehearsed.append((id(config.scheduler.optimizer), *found))
        return rehearsed

    def _try(self, trainer: Trainer, pl_module: LightningModule, rates: list[float]) -> None:
        """Train copies. Whatever they raise is none of the run's affair."""
        try:
            with exits_are_errors():
                self._train_copies(trainer, pl_module, rates)
        except Exception as error:
            self.notes.append(f"no copy of the network could be trained: {type(error).__name__}: {error}")
            self.skip(self.notes[-1])

    def _train_copies(self, trainer: Trainer, pl_module: LightningModule, rates: list[float]) -> None:
        batches = self._fetch(trainer, pl_module)
        self.ask(self.probes, self.schedules, batch=batches[0])
        origin = Trial(trainer, pl_module, trainer.optimizers[0])
        self._look_at_first_loss(origin.again(), batches[0])
        middle = math.ceil(len(batches) / 2)
        # A rate that a warm-up leads to may be too high at first, but it must not be too low.
        warms_up = max(rates) > 2 * max(origin.options("lr"))
        origin.set_rates(rates)
        if origin.draws_its_answers(batches[0]):
            self.judge(RangeTest(course(origin, 0.0), untold=DRAWN))
            self.notes.append(DRAWN)
            return
        learner, found = self._search(origin, batches[:middle], warms_up)
        if learner is not None:
            self._ask_about_labels(learner, batches[:middle], batches[middle:])
            return
        self._ask_about_inputs(origin.again(), batches[:middle])
        if not self.has_found():
            self.judge(NeverFell(found, trainer.estimated_stepping_batches, time.monotonic() > self.deadline))

    def _fetch(self, trainer: Trainer, pl_module: LightningModule) -> list[Any]:
        """Return twice `samples` samples of training data, or what there is, as the training step gets them."""
        loader = CombinedLoader(trainer.fit_loop._data_source.dataloader(), "min_size")
        batches, samples, until = [], 0, time.monotonic() + self.seconds / 4
        for batch, _, _ in islice(loader, 2 * MAX_BATCHES):
            batch = pl_module._on_before_batch_transfer(trainer.precision_plugin.convert_input(batch))
            batches.append(trainer.strategy.batch_to_device(batch, dataloader_idx=0))
            samples += batch_size(batch) or 1
            if samples >= 2 * self.samples or time.monotonic() > until:
                break
        return batches

    def _look_at_first_loss(self, trial: Trial, batch: Any) -> None:
        loss = float(trial.loss(batch).detach())
        self.facts["first_loss"] = loss
        calls = trial.criteria.calls
        added = added_up(loss, calls, batch)
        if added is not None:
            self.judge(added)
        call = trial.criteria.classification
        if call is None:
            self.notes.append(f"first loss {loss:.4g}")
            return
        chance = math.log(call.num_classes)
        self.notes.append(f"first loss {loss:.4g}, ln {call.num_classes} = {chance:.4g}")
        self.facts["chance"] = chance
        largest = float(call.input.detach().abs().max())
        self.judge(FirstLoss(mean_of([call]), chance, call.num_classes, largest, call.place))

    def _search(self, origin: Trial, known: list[Any], warms_up: bool) -> tuple[Trial | None, RangeTest]:
        """Return a copy for which the loss falls, as configured or changed, or None; and what was tried."""
        asked = origin.again()
        fall = -math.inf
        while fall < self.min_fall and asked.steps < 3 * self.steps:  # it may have to settle first
            fall = asked.train(known, self.steps)
        rate = max(origin.options("lr"))
        found = RangeTest(course(asked, fall), min_fall=self.min_fall, grad_norm=asked.grad_norm or 0.0)
        self.facts |= {"rate": rate, "fall": fall}
        learner = asked if fall >= self.min_fall else None
        for change, value, given, factor in [] if learner else changes(origin, fall < -self.min_fall, warms_up):
            if time.monotonic() > self.deadline:
                break
            print(f"  learning: trying {change}={'null' if given is None else f'{given:.3g}'}", flush=True)
            trial = origin.again()
            if change == CLIPPING:
                trial.clips = False
            else:
                trial.multiply("lr" if change == RATE else "weight_decay", factor)
            fall = trial.train(known, self.steps if factor else asked.steps)
            found.tried.append(course(trial, fall, change, value, given))
            if fall >= self.min_fall:
                learner = trial
                break
        # A network that begins with a good answer, as one that adds nothing to its input, has little to gain at first.
        while learner is None and asked.steps < self.max_steps and time.monotonic() < self.deadline:
            fall = asked.train(known, self.steps)
            if fall >= self.min_fall:
                learner, found.asked = asked, course(asked, fall)
        self.notes.append(f"loss {found.asked} on {len(known)} batches")
        self.judge(found)
        return learner, found

    def _ask_about_labels(self, learner: Trial, known: list[Any], unseen: list[Any]) -> None:
        """Compare the loss on samples that were not trained on with that for exchanged labels."""
        targets = learner.targets(known[0])
        found = Labels(course(learner, 0.0), len(known), 0.0, 0.0, False)
        if not targets:
            found.untold = UNTOLD
            self._ask_about_inputs(learner, known)
        elif not unseen or too_few(known, targets):
            found.untold = "there are too few samples to tell whether labels belong to them"
        else:
            raised, found.unseen = effect(learner, unseen, targets, FEW)
            if found.unseen < 2 * SURE:
                raised, found.unseen = effect(learner, unseen, targets)
            while found.unseen < SURE and not has_learnt(learner, known, targets) and learner.steps < self.max_steps:
                if time.monotonic() > self.deadline:
                    break
                learner.train(known, self.steps)
            found.known, found.course = math.inf, course(learner, 0.0)
            if found.unseen < SURE:
                raised, found.unseen = effect(learner, unseen, targets)
                found.known = effect(learner, known, targets)[1]
                found.learnt = has_learnt(learner, known, targets)
                if found.known < SURE:
                    self._ask_about_inputs(learner, known)
            self.notes.append(f"exchanged labels raise the loss on unseen samples by {raised:.3g}")
            self.facts |= {"effect_of_labels": raised, "deviations": found.unseen}
        self.judge(found)

    def _ask_about_inputs(self, trial: Trial, known: list[Any]) -> None:
        """See whether the answers differ at all from sample to sample."""
        targets = trial.targets(known[0])
        trial.module.eval()  # dropout would make samples differ whose outputs do not
        if targets:
            share = effect(trial, known, targets)[0] / max(abs(trial.mean(known)), 1e-12)
            self.judge(Inputs(share))
        else:
            self.judge(Inputs(0.0, "" if trial.answers_alike(known[0]) else UNTOLD))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watching.close()
        if self.watch is None or self.counter is None:
            return
        self.judge(*self.watch.evidence())
        self.ask(self.probes, self.schedules, calls=list(self.counter.calls.values()))
        if not self.watch.modes.asleep:  # else the line is known already
            left = [LeftInEval(call, place) for call, place in left_in_eval(trainer, pl_module)]
            self.judge(*left or [LeftInEval("")])
        self._ask_about_answers(trainer, pl_module)
        logged = sorted(trainer.callback_metrics)
        self.judge(*(Monitor(name, metric, logged) for name, metric in self.monitors))
        self._judge_choices(trainer)
        self.seen = "; ".join(self.notes)
        if not self.judged and not self.unjudged:
            self.skip(self.seen)

    def _judge_choices(self, trainer: Trainer) -> None:
        names, known = validated(trainer), trainer.callback_metrics
        self.judge(*(Chosen(who, name, names, name in names) for who, name in self.monitors if name in known))
        for name, least in self.least_gains.items():
            if name in known and known[name].numel() == 1:
                share = better(name) == "max" and 0 <= float(known[name]) <= 1
                self.judge(LeastGain(name, least, float(known[name]), share))

    def _ask_about_answers(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Put right and wrong answers in place of the network's, where other ranks wait for nothing."""
        if not pl_module.automatic_optimization or trainer.world_size > 1:
            return
        for split in (*splits("train", trainer.train_dataloader)[:1], *splits("val", trainer.val_dataloaders)[:1]):
            with suppress(Exception):  # of the project's step, on a batch that the run does not have
                found = answered(split, trainer, pl_module, time.monotonic() + self.seconds)
                self.judge(*[found] if found is not None else [])
        for split in splits("val", trainer.val_dataloaders)[:1]:
            with suppress(Exception):  # likewise
                state = after_another(split, trainer, pl_module, time.monotonic() + self.seconds)
                self.judge(*[state] if state is not None else [])

    def explain(self, error: Exception) -> Finding | None:
        """A schedule that waits for a metric stops the run."""
        said = str(error).partition("ReduceLROnPlateau conditioned on metric ")[2]
        if not said:
            return None
        logged = said.partition("Available metrics are: ")[2].partition("]")[0]
        known = [name.strip("'\" []") for name in logged.split(",") if name.strip("'\" []")]
        evidence = Monitor("ReduceLROnPlateau", said.split(" ")[0], known)
        rule = session.settings().rules["learning/monitor-not-logged"]
        return next(rule.findings(evidence, {}), None)


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


def effect(trial: Trial, batches: list[Any], targets: list[str], number: int = EXCHANGES) -> tuple[float, float]:
    """Return by how much exchanged targets raise the loss: in its own units, and in deviations of such exchanges."""
    right = trial.mean(batches)
    others = [list(exchanged(batch, targets, number)) for batch in batches]
    wrong = torch.tensor([trial.mean(list(each)) for each in zip(*others, strict=True)])
    raised = float(wrong.mean()) - right
    if abs(raised) < ROUNDING * abs(right):
        return raised, 0.0
    return raised, raised / max(float(wrong.std()), 1e-9)


def has_learnt(trial: Trial, known: list[Any], targets: list[str]) -> bool:
    """Whether the loss has come to half of its first value, and of that for exchanged targets.

    Half of the first alone may be the mean of the targets.
    """
    if trial.after > LEARNT * trial.before:
        return False
    return trial.after <= LEARNT * (trial.after + effect(trial, known, targets, FEW)[0])


def too_few(batches: list[Any], targets: list[str]) -> bool:
    """Whether some class has too few samples for anything about it to be learnt."""
    labels = [leaves(batch)[path] for batch in batches for path in targets if path in leaves(batch)]
    if any(label.is_floating_point() for label in labels):
        return False
    together = torch.cat([label.flatten() for label in labels])
    return len(together) < PER_CLASS * len(together.unique())


def mean_of(calls: list[CriterionCall]) -> float:
    """Return the mean over all labels of what criteria returned."""
    total, labels = 0.0, 0
    for call in calls:
        number, result = call.target.numel(), call.result.detach().float()
        total += float(result.sum()) if call.options.get("reduction") == "sum" else float(result.mean()) * number
        labels += number
    return total / max(labels, 1)


def added_up(loss: float, calls: list[CriterionCall], batch: Any) -> AddedUp | None:
    """Compare a loss with the criterion's mean over the batch, where its calls share the batch's labels among them."""
    known = [call for call in calls if call.result is not None and call.result.ndim == 0]
    if not known or len(known) != len(calls) or len({call.name for call in known}) > 1:
        return None
    targets = [call.target.detach() for call in known]
    if len(known) == 1 and known[0].num_classes is None:  # a sum over the values of one sample may be meant
        return None
    if not any(is_cut(targets, leaf) for leaf in leaves(batch).values()):
        return None
    labels = [set(target.unique().tolist()) for target in targets] if known[0].num_classes is not None else []
    apart = len(labels) > 1 and sum(map(len, labels)) == len(set().union(*labels))
    summed = sum(float(call.result.detach()) for call in known)
    return AddedUp(
        loss,
        mean_of(known),
        len(known),
        sum(map(len, targets)),
        str(known[0].options.get("reduction")),
        math.isclose(loss, summed, rel_tol=1e-4),  # of rounding in float32
        apart,
        known[-1].place,
    )


def is_cut(targets: list[Tensor], leaf: Tensor) -> bool:
    """Whether some targets are one tensor of the batch, cut into parts of samples."""
    if not all(target.ndim and target.shape[1:] == leaf.shape[1:] for target in targets) or not leaf.ndim:
        return False
    together = torch.cat(targets)
    return together.shape == leaf.shape and torch.equal(
        together.flatten().sort().values, leaf.to(together).flatten().sort().values
    )
