"""The "loss does not fall" routine: short trainings on copies of the network, then two short epochs under watch."""

import math
import time
from difflib import get_close_matches
from itertools import chain, islice, zip_longest
from typing import Any

import torch
import torch.nn.functional as F

from training_checklist.engines.batches import tensors
from training_checklist.engines.criterion_calls import CriterionCall, CriterionCalls
from training_checklist.engines.observe import labels_of
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.learning.attempt import Attempt, target_of
from training_checklist.experiments.learning.schedule import Schedule, lost, reversed_modes
from training_checklist.experiments.learning.watch import EpochWatch
from training_checklist.finding import FAILED, Finding, unsorted
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

LEARNT = 0.5  # share of its first value to which the loss on some batches falls as they are learnt by heart
SURE, UNSURE = 4.0, 2.0  # deviations from which on an effect is there, and below which there is none
PER_CLASS = 10  # samples below which a class cannot be learnt from so few
MAX_BATCHES = 64  # to train on
HIGHER, LOWER = [10.0**power for power in range(1, 6)], [0.1, 0.01, 0.001]
AGAIN = "python train.py +debug=learning"


class Learning(Experiment):
    """Fails where training cannot get anywhere, or where the numbers that it logs are not what they seem.

    A copy of the network is trained on a few batches: as configured and, where the loss does not fall, with one thing
    changed after the other until it does. A copy that has learnt them must prefer the true labels of samples that it
    has not seen to exchanged ones; where it does not, a network fed zeros would learn as much. The run itself has two
    short epochs; its schedule is judged by the length that was asked for.

    Args:
        samples: to train a copy on, and as many to judge it by.
        steps: of the optimizer in one attempt.
        max_steps: until a copy knows its samples by heart.
        seconds: after which no further attempt begins.
        batches: of each of the run's two epochs.
        limits: thresholds by name; conf/debug/learning.yaml says what each means.
    """

    item = "learning"
    shapes_run = True
    ends_with_fit = True
    no_workers = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, Checkpoint, ProgressBar)

    def __init__(
        self, samples: int, steps: int, max_steps: int, seconds: float, batches: int, limits: dict[str, float]
    ) -> None:
        super().__init__()
        self.samples, self.steps, self.max_steps = samples, steps, max_steps
        self.seconds, self.batches, self.limits = seconds, batches, limits
        self.monitors: list[tuple[str, str]] = []
        self.notes: list[str] = []

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            self.monitors = [
                (type(callback).__name__, callback.monitor)
                for callback in trainer.callbacks
                if getattr(callback, "monitor", None) is not None
            ]
        super().setup(trainer, pl_module, stage)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.deadline = time.monotonic() + self.seconds
        if pl_module.automatic_optimization and len(trainer.optimizers) == 1:  # else steps are the module's own affair
            configs = [config for config in trainer.lr_scheduler_configs if not config.reduce_on_plateau]
            schedules = [Schedule(config, trainer) for config in configs]
            own = (each.faults(self.limits["min_rate"]) for each in schedules)
            for fault in chain(lost(trainer), reversed_modes(trainer), *own):
                self.fail(*fault)
            with isolate_rng():
                self._judge_training(trainer, pl_module, schedules)
        else:
            self.notes.append("two epochs watched; no learning rate tried, for the module steps its optimizers itself")
        whole = trainer.estimated_stepping_batches * trainer.accumulate_grad_batches
        self.watch = EpochWatch(pl_module, self.limits, self.fail, self.warn, whole)
        trainer.callbacks = [*trainer.callbacks, self.watch]  # Lightning is going through the old list
        # A schedule may end with the run, which another item of this run may have shortened.
        batches = self.batches if whole / 2 >= self.batches else max(1, int(whole / 2))
        # By Lightning's own means: both epochs are to end as epochs do.
        trainer.limit_train_batches, trainer.fit_loop.max_epochs = batches, trainer.current_epoch + 2
        trainer.fit_loop._combined_loader = None
        trainer.fit_loop.setup_data()

    def _judge_training(self, trainer: Trainer, pl_module: LightningModule, schedules: list[Schedule]) -> None:
        batches = self._fetch(trainer, pl_module)
        middle = math.ceil(len(batches) / 2)
        known, unseen = batches[:middle], batches[middle:]
        rates = [float(group["lr"]) for group in trainer.optimizers[0].param_groups]
        try:
            first = Attempt(trainer, pl_module, rates)
        except (TypeError, RuntimeError) as error:  # of the user's own attributes
            self.notes.append(f"the network cannot be copied ({error}), so that no learning rate was tried")
            return
        calls = CriterionCalls(first.module)
        with calls:
            loss = first.loss(known[0])
        classifies = len(calls.criteria) == 1 and calls.criteria[0].num_classes is not None
        if classifies:
            self._judge_first_loss(float(loss.detach()), calls.criteria[0])
        # A rate that a warm-up leads to may be too high at first, but it must not be too low.
        peaks = schedules[0].peaks if schedules else rates
        learner = self._judge_rate(trainer, pl_module, known, peaks, warms_up=max(peaks) > 2 * max(rates))
        if learner is not None:
            self._judge_labels(learner, known, unseen)
        elif classifies:
            self._judge_inputs(first, known)

    def _fetch(self, trainer: Trainer, pl_module: LightningModule) -> list[Any]:
        """Return twice `samples` samples of training data, or what there is, as the training step gets them."""
        loader = CombinedLoader(trainer.fit_loop._data_source.dataloader(), "min_size")
        batches, samples, until = [], 0, time.monotonic() + self.seconds / 4
        for batch, _, _ in islice(loader, 2 * MAX_BATCHES):
            batch = pl_module._on_before_batch_transfer(trainer.precision_plugin.convert_input(batch))
            batches.append(trainer.strategy.batch_to_device(batch, dataloader_idx=0))
            samples += len(next(tensors(batch), []))
            if samples >= 2 * self.samples or time.monotonic() > until:
                break
        return batches

    def _judge_first_loss(self, loss: float, call: CriterionCall) -> None:
        chance, value = math.log(call.num_classes), call.result.detach().float()
        mean = float(value.sum() / call.target.numel() if call.options.get("reduction") == "sum" else value.mean())
        self.notes.append(f"first loss {loss:.4g}, ln {call.num_classes} = {chance:.4g}")
        self.facts |= {"first_loss": loss, "chance": chance}
        what = f"the first loss is {loss:.4g}; who knows nothing has ln {call.num_classes} = {chance:.4g}"
        where, look = f"training_step: {call.place}", "python train.py +debug=trace"
        if call.name == "nll_loss":
            normalised = F.nll_loss(F.log_softmax(call.input.detach(), 1), call.target, **call.options)
            if not torch.allclose(normalised.float(), value, atol=0.05):
                why = f"its inputs are no log-probabilities of classes; made such, they give {normalised.mean():.4g}"
                self.fail(what, where, why, f"log_softmax(logits, dim=1), or cross_entropy on logits; {look}")
                return
        if loss < 0 < mean and abs(loss + mean) < 0.1 * mean:
            why = f"the step returns minus the criterion's {mean:.4g}: training makes every answer worse, without bound"
            self.fail(what, where, why, "return the criterion's value without the minus")
        elif call.options.get("reduction") == "sum" and call.target.numel() > 1 and abs(loss) > 2 * abs(mean):
            why = f"it is a sum over {call.target.numel()} labels, mean {mean:.4g}: gradients grow with the batch"
            self.warn(what, where, why, "reduction: mean in the criterion's config")
        elif mean > chance + self.limits["max_first_excess"]:
            largest = float(call.input.detach().abs().max())
            why = f"the network is sure of wrong answers: its outputs reach {largest:.3g} before training"
            self.fail(what, where, why, f"scale inputs to standard deviation 1, and the last layer's weights; {look}")

    def _judge_rate(
        self, trainer: Trainer, pl_module: LightningModule, known: list[Any], rates: list[float], warms_up: bool
    ) -> Attempt | None:
        """Return a copy for which the loss falls, as configured or changed, or None."""
        asked = Attempt(trainer, pl_module, rates)
        fall = -math.inf
        while fall < self.limits["min_fall"] and asked.step < 3 * self.steps:  # it may have to settle first
            fall = asked.train(known, self.steps)
        self.notes.append(f"loss {asked.before:.4g} -> {asked.after:.4g} in {asked.step} steps on {len(known)} batches")
        self.facts |= {"rate": max(rates), "fall": fall}
        if fall >= self.limits["min_fall"]:
            return asked
        lower = [] if warms_up else [("optimizer.lr", factor) for factor in LOWER]
        higher = [("optimizer.lr", factor) for factor in HIGHER]
        cut = asked.clips and asked.norm > 10 * trainer.gradient_clip_val
        changes = [("trainer.gradient_clip_val", 0.0)] if cut else []
        changes += [("optimizer.weight_decay", 0.0)] if any(asked.options("weight_decay")) else []
        # Where the loss stays, either may be so; where it rises, the rate is hardly too low.
        by_turns = [change for pair in zip_longest(higher, lower) for change in pair if change is not None]
        changes += by_turns if fall > -0.02 else lower + higher
        for key, factor in changes:
            if time.monotonic() > self.deadline:
                self.warn(
                    f"the loss does not fall: {asked.before:.4g} -> {asked.after:.4g} in {asked.step} steps",
                    f"optimizer.lr={max(rates):.3g}",
                    f"there was no time to find out why: other settings are tried for {self.seconds:g} s",
                    f"{AGAIN} callbacks.debug_learning.seconds={10 * self.seconds:g}",
                )
                return None
            changed = Attempt(trainer, pl_module, rates)
            value = changed.change(key, factor)
            better = changed.train(known, self.steps if factor else asked.step)
            if better < self.limits["min_fall"]:
                continue
            slow = better < 10 * max(fall, 0) or 1 < factor < self.limits["max_too_low"]
            if not slow:
                self._fail_setting(asked, changed, key, value, factor)
            return changed
        self.notes.append("nothing that was tried makes it fall")
        return None

    def _fail_setting(self, asked: Attempt, changed: Attempt, key: str, value: float, factor: float) -> None:
        given = "null" if key == "trainer.gradient_clip_val" else f"{value * factor:.3g}"
        what = (
            f"the loss does not fall: {asked.before:.4g} -> {asked.after:.4g} in {asked.step} steps; "
            f"with {key}={given} it falls to {changed.after:.4g} in {changed.step}"
        )
        why = {
            "trainer.gradient_clip_val": f"a gradient of norm {asked.norm:.2g} is cut down to {value:g}",
            "optimizer.weight_decay": "the decay shrinks the weights faster than they learn",
            "optimizer.lr": f"the learning rate is too {'low' if factor > 1 else 'high'}",
        }[key]
        self.fail(what, f"{key}={value:.3g}", why, f"{AGAIN} {key}={given}")

    def _judge_labels(self, learner: Attempt, known: list[Any], unseen: list[Any]) -> None:
        """Compare the loss on samples that were not trained on with that for exchanged labels."""
        labels = [each for each in map(labels_of, known) if each is not None]
        few = labels and len(torch.cat(labels)) < PER_CLASS * len(torch.cat(labels).unique())
        if not unseen or target_of(known[0]) is None or few:
            self.notes.append("too few samples to tell whether labels belong to them")
            return
        raised, deviations = learner.effect_of_labels(unseen)
        while deviations < SURE and learner.after > LEARNT * learner.before and learner.step < self.max_steps:
            if time.monotonic() > self.deadline:
                return
            learner.train(known, self.steps)
        if deviations < SURE:
            raised, deviations = learner.effect_of_labels(unseen)
        self.notes.append(f"exchanged labels raise the loss on unseen samples by {raised:.3g}")
        self.facts |= {"effect_of_labels": raised, "deviations": deviations}
        learnt = learner.after <= LEARNT * learner.before
        # Where exchanging says nothing about what was learnt, it says nothing about the rest.
        if learnt and deviations < UNSURE and learner.effect_of_labels(known)[1] >= SURE:
            self.fail(
                f"the network learns {len(known)} batches by heart (loss {learner.before:.4g} -> {learner.after:.4g}), "
                f"but on samples that it has not seen it does as well with exchanged labels "
                f"({deviations:.1f} standard deviations)",
                "the labels of train_dataloader",
                "labels have nothing to do with inputs, so that a network fed zeros would be as good",
                "look at inputs beside their labels; python train.py +debug=limit_batches",
            )

    def _judge_inputs(self, learner: Attempt, known: list[Any]) -> None:
        """Fail where the network answers the same whatever it is fed."""
        learner.module.eval()  # dropout would make samples differ whose outputs do not
        raised, _ = learner.effect_of_labels(known)
        if abs(raised) < 1e-5 * abs(learner.mean(known)):
            self.fail(
                "exchanging the labels of the very samples that it is trained on does not change the loss",
                "the network",
                "its outputs do not depend on its inputs: a network fed zeros learns as well",
                "python train.py +debug=trace for the network, python train.py +debug=limit_batches for the inputs",
            )

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.watch.remove()
        for name, monitor in self.monitors:
            self._judge_monitor(name, monitor, trainer)
        self.seen = "; ".join(self.notes)

    def _judge_monitor(self, name: str, monitor: str, trainer: Trainer) -> None:
        logged = sorted(trainer.callback_metrics)
        if monitor not in logged:
            near = get_close_matches(monitor, logged, n=1, cutoff=0)
            fix = f"monitor one of these; the nearest is {near[0]}" if near else "log it with self.log"
            self.fail(
                f"{name} monitors {monitor}, which nobody logs; logged: {', '.join(logged) or 'nothing'}",
                f"{name}(monitor={monitor!r})",
                "it stops training with an exception, or never acts",
                fix,
            )

    def explain(self, error: Exception) -> Finding | None:
        """A schedule that waits for a metric stops the run."""
        if "ReduceLROnPlateau conditioned on metric" not in str(error):
            return None
        return unsorted(
            FAILED,
            str(error).splitlines()[0],
            "lr_scheduler ReduceLROnPlateau",
            "it stops training at the end of the first epoch",
            "log that metric in validation_step, or let the schedule monitor one of the available ones",
        )
