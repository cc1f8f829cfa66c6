"""One batch, again and again: whatever can learn at all can learn that by heart."""

import math
import time
from collections.abc import Iterator
from itertools import repeat
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import batch_size, leaves, same
from training_checklist.engines.compared import replaced
from training_checklist.engines.criteria import Criteria, CriterionCall
from training_checklist.engines.graph import leaf_tensors, walk
from training_checklist.engines.hooks import hooks_of
from training_checklist.engines.instead import put
from training_checklist.engines.own_code import pass_on
from training_checklist.engines.places import of_function
from training_checklist.engines.rehearsal import usual_rates
from training_checklist.engines.replay import reported_loss
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.engines.trial import DRAWN, Trial, exchanged, norm_of_gradients, without_inputs
from training_checklist.evidence.one_batch import (
    BY_HAND,
    CLIPPING,
    DECAY,
    RATE,
    SAME_DRAWS,
    ZEROS,
    OneBatch,
    OneTrial,
    SilentSamples,
)
from training_checklist.experiments.experiment import Experiment, NoWorkers, stop
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

TRIED = 100  # steps of a trial, after as many of which the run itself is given up if its loss falls no further
STEP = 0.01  # share by which a lower loss is a new best: float32 keeps 7 digits, and dropout's noise is switched off
NEARLY = 0.1  # share of the way that is left: nine tenths show that the batch is being learnt by heart
# Share of any other first loss, and of the loss that the answers have for one another's targets. One answer for all
# samples is as good for any target; of squared errors, half of that leaves a third of the variance: (1 - r) / (1 + r).
LEARNT = 0.5
EXCHANGES = 6  # of targets, whose mean loss counts: single ones may leave much where it was
# Share of its middle below which the end of a loss is still falling: it decides about words, and whether a network
# whose answers are all right is told that its loss stalled.
FALLING = 0.9
SETTLED = 10  # steps in a row, which tell a loss that has fallen from one that swings through low values
REPORT_EVERY = 100  # steps
ROUNDING = 1e-5  # relative, of float32 in a criterion
BF16 = 1 / 64  # relative: bfloat16 keeps 8 bits of a number, and of criterion and loss each is rounded to that
NEVER = 2**62  # steps of a schedule's frequency
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
AROUND = (
    "optimizer_step",
    "on_train_batch_start",
    "on_before_zero_grad",
    "optimizer_zero_grad",
    "on_before_backward",
    "backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
)
LOWER = [0.1, 0.01, 0.001, 0.0001]
BY_TURNS = [10.0, 0.1, 100.0, 0.01, 1000.0, 0.001, 1e4, 1e5]


class Repeated(DataLoader):
    """One batch, again and again, in the place of a loader whose dataset and samplers are still there to be asked."""

    def __init__(self, loader: DataLoader | None, batch: Any, steps: int) -> None:
        super().__init__([batch] * steps, batch_size=None)
        self.batch, self.steps = batch, steps
        if loader is not None:
            kept = ("dataset", "sampler", "batch_sampler", "batch_size", "collate_fn")
            vars(self).update({name: getattr(loader, name) for name in kept})

    def __iter__(self) -> Iterator[Any]:
        return repeat(self.batch, self.steps)

    def __len__(self) -> int:
        return self.steps


class Overfit(Experiment):
    """Trains on one batch, which is fetched once and repeated within one epoch.

    Neither shuffling nor augmentation in the dataset plays a part then; `Trainer(overfit_batches=1)` leaves them on.
    Schedules are held at their highest rate. A loss that is no classification's has to be lower than it is with targets
    exchanged among the samples, which is no less than that of the best answer for all of them. Where the batch is not
    memorised, copies are trained from the same weights with one thing changed, until one of them does better.

    Args:
        max_loss: the loss that memorising must reach, above the least that the criterion allows.
        min_accuracy: the accuracy that it must reach, where the task is a classification.
        min_fall: share of the first loss by which any other loss must fall, and of that for exchanged targets by which
            it must be lower.
        max_steps: optimizer steps after which it is given up.
        patience: optimizer steps without a loss that is lower by a hundredth, after which it is given up too.
        seconds: after which it is given up without a verdict.
    """

    item = "overfit"
    shapes_run = True
    ends_with_fit = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, Checkpoint, ProgressBar)

    def __init__(
        self, max_loss: float, min_accuracy: float, min_fall: float, max_steps: int, patience: int, seconds: float
    ) -> None:
        super().__init__()
        self.max_loss, self.min_accuracy, self.min_fall = max_loss, min_accuracy, min_fall
        self.max_steps, self.patience, self.seconds = max_steps, patience, seconds
        self.criteria = Criteria()
        self.batch: Any = None
        self.origin: Trial | None = None
        self.is_measured = False  # whether a classification is only looked at, and no part of the loss
        self.losses: list[float] = []  # of the classification alone, where there is one
        self.totals: list[float] = []
        self.shares: list[float] = []  # of a regression's criteria with the targets exchanged
        self.best, self.best_step, self.first_step = math.inf, 0, 0
        self.goal: float | None = None
        self.accuracy: float | None = None
        self.weights: Tensor | None = None
        self.update = 0.0  # of the whole parameter vector in the first step, relative to its norm
        self.grad_norm: float | None = None
        self.silent = self.out_of_time = False
        self.uncopied = ""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage == "fit":
            own = pl_module.setup

            def setup(*arguments: Any, **options: Any) -> None:
                vars(pl_module).pop("setup", None)
                pass_on(own, *arguments, **options)
                self._repeat(trainer)

            put(pl_module, "setup", setup)  # in which a module with loaders of its own may make their datasets

    def _repeat(self, trainer: Trainer) -> None:
        """Put one batch in the place of the training loader."""
        source = trainer.fit_loop._data_source  # knows the loaders wherever they come from
        with NoWorkers():
            loader = CombinedLoader(pass_on(source.dataloader), "min_size")
            self.batch, _, _ = pass_on(next, pass_on(iter, loader))
        steps = self.max_steps * trainer.accumulate_grad_batches
        # Hooks may ask the loader for its dataset or sampler.
        kept = loader.flattened[0] if len(loader.flattened) == 1 else None
        source.instance = Repeated(kept if isinstance(kept, DataLoader) else None, self.batch, steps)
        trainer.limit_train_batches = 1.0  # of these, whatever another item of the same run has set

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(trainer.optimizers) != 1:
            several = "several optimizers may work against one another: no loss needs to fall"
            self._give_up(trainer, several if trainer.optimizers else "there is no optimizer")
            return
        off = ["shuffling", "augmentation in the dataset"]
        dropouts = [name for name, module in pl_module.named_modules() if isinstance(module, DROPOUTS)]
        for name in dropouts:
            pl_module.get_submodule(name).eval()
        off += [f"dropout in {', '.join(dropouts)}"] if dropouts else []
        if trainer.lr_scheduler_configs:
            rates = usual_rates(trainer)[id(trainer.optimizers[0])]
            for group, rate in zip(trainer.optimizers[0].param_groups, rates, strict=True):
                group["lr"] = rate
            for config in trainer.lr_scheduler_configs:
                config.frequency = NEVER
            off += [f"learning rate schedule (held at {max(rates):.3g})"]
        self.facts["turned_off"] = off
        self.first_step, self.deadline = trainer.global_step, time.monotonic() + self.seconds
        try:
            self.origin = Trial(trainer, pl_module, trainer.optimizers[0])
        except Exception as error:  # of the project's own attributes
            self.uncopied = f"the network cannot be copied: {type(error).__name__}: {error}"
        self.watching.enter_context(around_step(pl_module, Tracer(pl_module, self.criteria)))

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.criteria.calls.clear()
        if batch_idx < trainer.accumulate_grad_batches:
            lazy = any(map(is_lazy, pl_module.parameters()))  # which the first step gives its numbers
            self.weights = None if lazy else flat(pl_module)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        call = self.criteria.classification
        if self.losses or call is None or call.result is None:
            return
        leaves_of_loss = leaf_tensors([loss])
        is_learnt_from = any(id(weight) in leaves_of_loss for weight in pl_module.parameters())
        self.is_measured = is_learnt_from and call.result.grad_fn not in set(walk([loss.grad_fn]))

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.losses:
            self.grad_norm = norm_of_gradients(pl_module)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        loss = reported_loss(outputs, trainer)
        if loss is None:
            self._give_up(trainer, "training_step returns no loss, so that there is nothing to judge by")
            return
        call = self._learnt(self.criteria)
        if call is not None and len(call.target) == batch_size(batch) and call.target.ndim == 1:
            if not self.losses:
                self._look_at_criterion(call, batch)
            self.accuracy = call.accuracy
        self.losses.append(value_of(call, loss))
        self.totals.append(float(loss))
        share = None if self.goal is not None else share_of_exchanged(self.criteria)
        self.shares += [] if share is None else [share]
        self.batch = batch
        steps = self._taken(trainer)
        if self.weights is not None and steps == 1:
            self.update, self.weights = float((flat(pl_module) - self.weights).norm() / self.weights.norm()), None
        if batch_idx % REPORT_EVERY == 0:
            print(f"  overfit: step {steps}, {self._evidence(trainer).standing}", flush=True)
        if self.losses[-1] < self.best - STEP * abs(self.best) or math.isinf(self.best):
            self.best, self.best_step = self.losses[-1], steps
        self.out_of_time = time.monotonic() > self.deadline
        given_up = steps - self.best_step >= self.patience or self.out_of_time
        if self._reached(self.losses, self.accuracy, self.shares) or given_up or not math.isfinite(self.losses[-1]):
            stop(trainer)

    def _learnt(self, criteria: Criteria) -> CriterionCall | None:
        """Return the classification that the loss is made of, or None."""
        return None if self.is_measured else criteria.classification

    def _look_at_criterion(self, call: CriterionCall, batch: Any) -> None:
        """Learn what the criterion allows at best, and of which samples it asks nothing."""
        try:
            self.goal = least(call) + self.max_loss
            silent = silent_samples(call)
        except (RuntimeError, ValueError):  # a variant of the criterion without class probabilities
            self.goal = self.max_loss
            silent = None
        if silent is not None:
            self.silent = silent.silent > 0
            self.judge(silent)

    def _reached(self, losses: list[float], accuracy: float | None, shares: list[float]) -> bool:
        """Whether what memorising asks for is reached: a classification's goal, or half of any other first loss."""
        if self.goal is None:
            halved = losses[0] - max(losses[-SETTLED:]) > LEARNT * abs(losses[0])
            return halved and max(shares[-SETTLED:], default=0.0) <= LEARNT
        return losses[-1] <= self.goal and (accuracy is None or accuracy >= self.min_accuracy)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watching.close()
        if self.skipped or not self.losses:
            return
        found = self._evidence(trainer)
        fell = self.goal is None and found.fall > self.min_fall * abs(self.losses[0])
        if self.goal is None:
            shares = self.shares[-SETTLED:]
            trained = Trial(trainer, pl_module, trainer.optimizers[0]) if self.origin is not None else None
            found.share = sum(shares) / len(shares) if shares else self._share_by_hand(trained, self.batch)
            found.is_constant = found.share is not None and found.share > 1 - self.min_fall
            self.facts["share_of_exchanged"] = found.share
        # Other terms of a loss may pull at the same answers: these can be right then, but not as sure as one likes.
        settled = self.accuracy is not None and self.accuracy >= self.min_accuracy
        right = settled and (self._is_nearly_there(found) or not in_proportion(self.losses, self.totals))
        reached = self._reached(self.losses, self.accuracy, self.shares) or fell
        found.memorised = (reached and not found.is_constant) or right
        self.facts |= {"first_loss": self.losses[0], "last_loss": self.losses[-1], "accuracy": self.accuracy}
        self.facts |= {"steps": found.steps, "update_ratio": self.update}
        off = ", ".join(self.facts["turned_off"])
        self.seen = f"{found.standing} after {found.steps} steps on one batch; switched off: {off}"
        if self.out_of_time and not found.memorised:
            self.skip(f"{found.standing} after {found.steps} steps in {self.seconds:g} s, which {found.course}")
            return
        found.all_same = all_same(self.batch)
        held = {id(weight) for group in trainer.optimizers[0].param_groups for weight in group["params"]}
        found.unheld = [
            name for name, weight in pl_module.named_parameters() if weight.requires_grad and id(weight) not in held
        ]
        found.around, found.step = hooks_of(trainer, pl_module, AROUND), of_function(type(pl_module).training_step)
        if not found.memorised and not self.silent and not found.is_on_its_way:
            if self.goal is None and self.origin is not None and self.origin.draws_its_answers(self.batch):
                self.skip(f"{found.standing}: {DRAWN}")
                return
            self._try(found)
        self.facts["trials"] = {each.change: each.loss for each in found.trials or []}
        self.judge(found)

    def _share_by_hand(self, trained: Trial | None, batch: Any) -> float | None:
        """Return the loss as a share of that with targets exchanged, where the step calls no criterion that is known.

        None where nothing of the batch is only compared with, or the loss is none of errors: it may be less than 0.
        """
        if trained is None or not trained.module.automatic_optimization:
            return None
        with isolate_rng():
            try:
                targets = trained.targets(batch)
                if not targets:
                    return 1.0 if trained.answers_alike(batch) else None
                others = trained.mean([*exchanged(batch, targets, EXCHANGES)])
                return trained.mean([batch]) / others if others > 0 else None
            except Exception as error:  # of the project's step, which the run would not have called here
                self.uncopied = f"a copy of the network cannot be asked: {type(error).__name__}: {error}"
                return None

    def _is_nearly_there(self, found: OneBatch) -> bool:
        """Whether the loss still falls, and a tenth at most is left of what it was above its least value.

        So it is where a rate is low, or most of a network is frozen.
        """
        return found.still_falling and self._is_near(self.losses[-1])

    def _is_near(self, loss: float) -> bool:
        if self.goal is None:
            return False
        lowest = self.goal - self.max_loss
        return loss - lowest <= NEARLY * (self.losses[0] - lowest)

    def _try(self, found: OneBatch) -> None:
        """Train copies with one thing changed, until one does better."""
        found.trials, found.reason = [], self.uncopied
        if self.origin is None:
            return
        with isolate_rng():
            try:
                if self.origin.module.automatic_optimization:
                    if self._memorises_distinct(found):
                        return
                    losses = [self.origin.again().mean([self.batch], seed) for seed in range(3)]
                    found.noise = max(losses) - min(losses)
                for change, value, given, trial in self._changes(found):
                    if time.monotonic() > self.deadline:
                        found.reason = f"there was no time for further trials: {self.seconds:g} s are over"
                        return
                    print(f"  overfit: trying {change}{'' if given is None else f'={given:.3g}'}", flush=True)
                    found.trials.append(self._run(change, value, given, trial))
                    if found.explains(found.trials[-1]):
                        return
            except Exception as error:  # of the project's step, which the run would not have called here
                found.reason = f"a copy of the network cannot be trained: {type(error).__name__}: {error}"

    def _memorises_distinct(self, found: OneBatch) -> bool:
        """Whether the samples are memorised that repeat no id: the others ask for two answers to one input.

        So it is where users are held against each other's items, and a user comes twice.
        """
        lookups = Lookups()
        with torch.no_grad(), Tracer(self.origin.module, lookups):
            self.origin.again().loss(self.batch)
        batch = distinct(self.batch, lookups.ids)
        if batch is None:
            return False
        size, of = batch_size(batch), batch_size(self.batch)
        print(f"  overfit: trying the {size} of {of} samples that repeat no id", flush=True)
        copy = self.origin.again()
        trial = self._run(BY_HAND, None, None, copy, batch)
        call = self._learnt(copy.criteria)
        right = call is not None and call.accuracy is not None and call.accuracy >= self.min_accuracy
        found.memorised = trial.memorised or (right and self._is_near(trial.loss))
        if found.memorised:
            self.seen += f"; the {size} of {of} samples that repeat no id are memorised: {trial}"
        return found.memorised

    def _changes(self, found: OneBatch) -> Any:
        """Yield change, value, what is given instead, and a copy to be trained."""
        origin = self.origin
        yield BY_HAND, None, None, origin.again()
        if origin.clips:
            trial = origin.again()
            trial.clips = False
            yield CLIPPING, origin.trainer.gradient_clip_val, None, trial
        if any(origin.options("weight_decay")):
            trial = origin.again()
            trial.multiply("weight_decay", 0.0)
            yield DECAY, max(origin.options("weight_decay")), 0.0, trial
        if found.noise > 0:
            trial = origin.again()
            trial.same_draws = True
            yield SAME_DRAWS, None, None, trial
        # Where the loss rose, a rate that is higher still makes it worse.
        rate = max(origin.options("lr"))
        for factor in LOWER if found.has_risen else BY_TURNS:
            trial = origin.again()
            trial.multiply("lr", factor)
            yield RATE, rate, rate * factor, trial
        yield ZEROS, None, None, origin.again()

    def _run(self, change: str, value: float | None, given: float | None, trial: Trial, batch: Any = None) -> OneTrial:
        batch = self.batch if batch is None else batch
        if change == ZEROS:
            batch = without_inputs(batch, trial.again().targets(batch))
        losses, shares, reached = [], [], False
        for _ in range(TRIED):
            loss = trial.take_step(batch)
            call = self._learnt(trial.criteria)
            losses.append(value_of(call if self.goal is not None else None, torch.tensor(loss)))
            share = None if self.goal is not None else share_of_exchanged(trial.criteria)
            shares += [] if share is None else [share]
            reached = self._reached(losses, None if self.accuracy is None or call is None else call.accuracy, shares)
            hopeless = len(losses) == TRIED // 3 and min(losses) > losses[0] - STEP * abs(losses[0])
            if reached or hopeless or not math.isfinite(loss):
                break
        if reached and self.goal is None and not shares:
            share = self._share_by_hand(trial, batch)
            reached = share is None or share <= LEARNT
        loss = losses[-1] if reached else sum(losses[-5:]) / len(losses[-5:])
        return OneTrial(change, loss, trial.steps, reached, value, given)

    def _evidence(self, trainer: Trainer) -> OneBatch:
        middle, last = self.losses[len(self.losses) // 2], self.losses[-10:]
        falling = sum(last) / len(last) < FALLING * min(middle, self.losses[0])
        if self.goal is None:  # how far it has to fall is not known
            falling = self.best_step > 0 and self._taken(trainer) - self.best_step < self.patience
        return OneBatch(
            losses=self.losses,
            steps=self._taken(trainer),
            accuracy=self.accuracy,
            goal=self.goal,
            still_falling=falling,
            grad_norm=self.grad_norm,
            update=self.update,
            silent=self.silent,
        )

    def _taken(self, trainer: Trainer) -> int:
        """Return how many steps the optimizer has taken here: a resumed run has others behind it."""
        return trainer.global_step - self.first_step

    def _give_up(self, trainer: Trainer, reason: str) -> None:
        self.skip(reason)
        stop(trainer)


def value_of(call: CriterionCall | None, loss: Tensor) -> float:
    """Return the mean of a classification's criterion over the labels, or else the loss, which may hold other terms."""
    if call is None or call.result is None:
        return float(loss)
    result = call.result.detach().float()
    return float(result.sum() / call.target.numel() if call.options.get("reduction") == "sum" else result.mean())


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
        if (call.target == call.target[:1]).all():
            continue
        function = getattr(F, call.name)
        here += float(call.result.mean())
        others = [function(call.input, call.target[order], **call.options).mean() for order in orders]
        there += float(torch.stack(others).mean())
    return here / there if there > 0 else None


def in_proportion(values: list[float], totals: list[float]) -> bool:
    """Whether losses are a criterion's values, times a factor that stays the same."""
    factor = totals[0] / values[0] if values[0] else math.nan
    pairs = zip(values, totals, strict=True)
    return all(abs(total - factor * value) <= BF16 * abs(total) for value, total in pairs)


def asked(call: CriterionCall, logits: Tensor, **options: Any) -> Tensor:
    return getattr(F, call.name)(logits, call.target, **(options or call.options))


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
    result = asked(call, best)
    return float(result.sum() / call.target.numel() if call.options.get("reduction") == "sum" else result.mean())


def silent_samples(call: CriterionCall) -> SilentSamples:
    """Return the samples that pull on nothing, compared with the same criterion without its options.

    Every sample pulls at an answer that is the same for all classes: towards its own label.
    """
    pulls = []
    for options in (call.options, {"reduction": "sum"}):
        with torch.enable_grad():
            even = torch.full_like(call.input, -math.log(call.num_classes), dtype=torch.float32).requires_grad_()
            (slope,) = torch.autograd.grad(asked(call, even, **options).sum(), even)
        pulls.append(slope.abs().amax(1))
    asked_for = (call.target >= 0) & (call.target < call.num_classes)
    silent = asked_for & (pulls[0] < ROUNDING * pulls[1] / len(call.target))
    plain = {"ignore_index": -100, "label_smoothing": 0.0, "weight": None}
    shown = {key: call.options[key] for key in plain if call.options.get(key) is not None}
    options = ", ".join(
        f"{key}={value.tolist()[:10] if isinstance(value, Tensor) else f'{value:g}'}"
        for key, value in shown.items()
        if isinstance(value, Tensor) or value != plain[key]
    )
    classes = sorted({int(label) for label in call.target[silent]})
    return SilentSamples(int(silent.sum()), len(call.target), classes, f"{call.name}({options})", call.place)


class Lookups(Listener):
    """Keeps what embeddings are asked for."""

    def __init__(self) -> None:
        self.ids: list[Tensor] = []

    def after(self, call: Call) -> None:
        if call.name == "embedding" and isinstance(index := call.argument("input", 0), Tensor):
            self.ids.append(index)


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


def flat(pl_module: LightningModule) -> Tensor:
    """Return all trainable parameters as one vector."""
    weights = [weight.detach() for weight in pl_module.parameters() if weight.requires_grad]
    return torch.cat([weight.flatten().float() for weight in weights]) if weights else torch.zeros(1)


def all_same(batch: Any) -> bool:
    """Whether every sample of a batch has the same values in its floating-point tensors, as far as it has samples."""
    size = batch_size(batch)
    inputs = [leaf for leaf in leaves(batch).values() if leaf.ndim > 1 and leaf.is_floating_point()]
    return bool(inputs) and size is not None and size > 1 and all(bool((leaf == leaf[:1]).all()) for leaf in inputs)
