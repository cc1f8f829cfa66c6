"""One batch, again and again: whatever can learn at all can learn that by heart."""

import inspect
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from training_checklist.engines.batches import tensors
from training_checklist.engines.observe import Logits
from training_checklist.engines.replay import reported_loss, unchanged, unwatched
from training_checklist.experiments.experiment import Experiment, NoWorkers, stop
from training_checklist.experiments.learning.attempt import Attempt
from training_checklist.lightning import (
    Callback,
    Checkpoint,
    CombinedLoader,
    EarlyStopping,
    LightningModule,
    ProgressBar,
    Trainer,
    is_overridden,
)

TYPICAL_UPDATE = 1e-3  # of a weight's norm in a step (Karpathy, "A Recipe for Training Neural Networks", 2019)
TRIED = 100  # steps of a copy without weight decay
WATCHED = 4  # steps between which weights must stay as they are
BETWEEN_STEPS = ("on_train_batch_start", "on_train_batch_end", "on_before_zero_grad")
REPORT_EVERY = 100  # steps
DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class Overfit(Experiment):
    """Fails where one batch cannot be memorised.

    The batch is fetched once and repeated within one epoch, so that neither shuffling nor augmentation in the dataset
    nor a schedule that steps by epochs plays a part; `Trainer(overfit_batches=1)` leaves all three on.

    Args:
        max_loss: the loss that memorising must reach, above what label smoothing leaves at best.
        min_accuracy: the accuracy that it must reach, where the task is a classification.
        max_steps: optimizer steps after which it is given up.
        patience: optimizer steps without a loss that is lower by a hundredth, after which it is given up too.
    """

    item = "overfit"
    shapes_run = True
    ends_with_fit = True
    drops: tuple[type[Callback], ...] = (EarlyStopping, Checkpoint, ProgressBar)

    def __init__(self, max_loss: float, min_accuracy: float, max_steps: int, patience: int) -> None:
        super().__init__()
        self.max_loss, self.min_accuracy, self.max_steps = max_loss, min_accuracy, max_steps
        self.patience = patience
        self.best, self.best_step = math.inf, 0
        self.losses: list[float] = []
        self.accuracy: float | None = None
        self.reached = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if stage != "fit":
            return
        source = trainer.fit_loop._data_source  # knows the loaders wherever they come from
        with NoWorkers():
            loader = CombinedLoader(source.dataloader(), "min_size")
            self.batch, _, _ = next(iter(loader))
        steps = self.max_steps * trainer.accumulate_grad_batches
        source.instance = DataLoader([self.batch] * steps, batch_size=None)
        trainer.limit_train_batches = 1.0  # of these, whatever another item of the same run has set

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.logits = Logits(pl_module)
        self.dropouts = [name for name, module in pl_module.named_modules() if isinstance(module, DROPOUTS)]
        for name in self.dropouts:
            pl_module.get_submodule(name).eval()
        self.initial = {
            name: value.detach().cpu().clone()
            for name, value in pl_module.state_dict().items()
            if isinstance(value, Tensor) and not is_lazy(value)  # a module may keep anything as its extra state
        }
        self.first_step = trainer.global_step
        self.first_rates = self.highest_rates = learning_rates(trainer)
        self.update = 0.0  # of the whole parameter vector, relative to its norm
        self.weights: Tensor | None = None
        self.grad_norm: float | None = None
        self.has_gradients = False
        self.left: Tensor | None = None  # the weights as the last step has left them
        self.replaced = 0.0  # how far they were away from that when the next loss was computed
        off = [f"dropout in {', '.join(self.dropouts)}"] if self.dropouts else []
        self.facts["turned_off"] = [*off, "shuffling and augmentation in the dataset (one batch is fetched once)"]

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if batch_idx < trainer.accumulate_grad_batches:
            self.weights = flat(pl_module)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.left is not None:
            self.replaced = max(self.replaced, float((flat(pl_module) - self.left).norm() / self.left.norm()))

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.has_gradients |= not self.losses and any(p.grad is not None for p in pl_module.parameters())

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        if self.grad_norm is None:
            gradients = [parameter.grad.norm() for parameter in pl_module.parameters() if parameter.grad is not None]
            self.grad_norm = float(torch.stack(gradients).norm()) if gradients else None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not outputs:
            self.skip("training_step returns no loss, so that there is nothing to judge by")
            stop(trainer)
            return
        self.losses.append(float(reported_loss(outputs, trainer)))
        self.highest_rates = list(map(max, self.highest_rates, learning_rates(trainer)))
        self.last_batch = batch
        self.accuracy = self.logits.accuracy(batch)
        self.left = flat(pl_module) if len(self.losses) < WATCHED else None
        if self.weights is not None and self._taken(trainer) == 1:
            self.update = float((flat(pl_module) - self.weights).norm() / self.weights.norm())
        if batch_idx % REPORT_EVERY == 0:
            print(f"  overfit: step {self._taken(trainer)}, {self._standing()}", flush=True)
        right = self.accuracy is None or self.accuracy >= self.min_accuracy
        self.reached = self.losses[-1] <= self.max_loss + self._floor(pl_module) and right
        if self.losses[-1] < self.best - 0.01 * abs(self.best) or math.isinf(self.best):
            self.best, self.best_step = self.losses[-1], self._taken(trainer)
        given_up = self._taken(trainer) - self.best_step >= self.patience
        if self.reached or given_up or not math.isfinite(self.losses[-1]):
            stop(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.logits.remove()
        if self.skipped:
            return
        self.facts |= {"first_loss": self.losses[0], "last_loss": self.losses[-1], "accuracy": self.accuracy}
        self.facts |= {"steps": self._taken(trainer), "update_ratio": self.update}
        self.seen = f"{self._standing()} after {self._taken(trainer)} steps; off: {'; '.join(self.facts['turned_off'])}"
        if self.reached:
            return
        course = self._course()
        what = f"one batch could not be memorised: {self._standing()} after {self._taken(trainer)} steps; it {course}"
        decay = self._too_much_decay(trainer, pl_module) if course == "stalled" else None
        if decay is not None:
            value, without = decay
            self.fail(
                what,
                f"optimizer.weight_decay={value:g}",
                f"the decay pulls weights to 0 as strongly as the loss pulls them away; without it the loss falls to "
                f"{without:.4g} in {TRIED} steps, and with it it does not",
                "python train.py +debug=overfit ++optimizer.weight_decay=0",
            )
        elif self.accuracy == 1.0 and course != "diverged":
            self.warn(
                what,
                "the criterion",
                f"every answer is right but the loss stays above max_loss={self.max_loss}: it cannot reach 0",
                "if that is meant (a penalty, soft targets): python train.py +debug=overfit "
                f"callbacks.debug_overfit.max_loss={self.losses[-1] * 1.1:.2g}",
            )
        else:
            self.fail(what, *self._suspect(trainer, pl_module, course))

    def _too_much_decay(self, trainer: Trainer, pl_module: LightningModule) -> tuple[float, float] | None:
        """Return the weight decay and the loss without it, where a copy memorises the batch without it alone."""
        decays = [float(group.get("weight_decay", 0)) for group in groups(trainer)]
        if not any(decays) or len(trainer.optimizers) > 1 or not pl_module.automatic_optimization:
            return None
        bound = self.max_loss + self._floor(pl_module)
        after = []
        try:
            for factor in (0.0, 1.0):
                attempt = Attempt(trainer, pl_module, learning_rates(trainer))
                attempt.change("optimizer.weight_decay", factor)
                attempt.train([self.last_batch], TRIED)
                after.append(attempt.after)
        except (TypeError, RuntimeError):  # of the user's own attributes, which cannot be copied
            return None
        return (max(decays), after[0]) if after[0] <= bound < after[1] else None

    def _floor(self, pl_module: LightningModule) -> float:
        if self.logits.value is None:
            return 0.0
        smoothing = [
            module.label_smoothing for module in pl_module.modules() if isinstance(module, nn.CrossEntropyLoss)
        ]
        return max(
            (entropy_of_smoothing(value, self.logits.value.shape[1]) for value in smoothing if value > 0), default=0.0
        )

    def _taken(self, trainer: Trainer) -> int:
        """Return how many steps the optimizer has taken here: a resumed run has others behind it."""
        return trainer.global_step - self.first_step

    def _standing(self) -> str:
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.3f}"
        return f"loss {self.losses[0]:.4g} -> {self.losses[-1]:.4g}{accuracy}"

    def _course(self) -> str:
        first, last = self.losses[0], sum(self.losses[-10:]) / len(self.losses[-10:])
        if not math.isfinite(last) or last > 1.5 * abs(first):
            return "diverged"
        middle = self.losses[len(self.losses) // 2]
        return "fell and was still falling" if last < 0.9 * middle and last < 0.9 * first else "stalled"

    def _suspect(self, trainer: Trainer, pl_module: LightningModule, course: str) -> tuple[str, str, str]:
        """Return where the trouble lies by the look of it, why, and what to do."""
        trainable = {name: parameter for name, parameter in pl_module.named_parameters() if parameter.requires_grad}
        held = {id(parameter) for group in groups(trainer) for parameter in group["params"]}
        missing = [name for name, parameter in trainable.items() if id(parameter) not in held]
        rate, rate_now = max(self.first_rates), max(learning_rates(trainer))
        highest = max(self.highest_rates)
        clip = trainer.gradient_clip_val
        moved = f"the weights moved by {self.update:.1e} of their norm in the first step"
        look, again = "python train.py +debug=gradients", "python train.py +debug=overfit"
        own = type(pl_module).__name__
        if self.grad_norm is None and self.has_gradients:
            why = "the parameters have gradients, and no step of the optimizer is taken"
            return f"{own}.optimizer_step", why, "call optimizer.step(closure=optimizer_closure) there"
        if self.grad_norm is None:
            why = "no parameter gets a gradient: the loss is detached from the network (detach, item, no_grad, argmax)"
            return "training_step", why, look
        if missing:
            why = f"no optimizer holds {len(missing)} of {len(trainable)} parameters, so that they never change"
            return f"configure_optimizers: {shown(missing)}", why, f"give it self.parameters(); {look}"
        if self.replaced > 0:
            hooks = [f"{own}.{hook}" for hook in BETWEEN_STEPS if is_overridden(hook, pl_module)]
            why = f"between two steps the weights change by {self.replaced:.1e} of their norm, not by the optimizer"
            return (
                ", ".join(hooks) or "training_step or a callback",
                why,
                "leave weights to the optimizer once training has begun",
            )
        if all_equal(self.batch):
            why = "all samples of the batch are the same, so that no network can tell them apart"
            return "train_dataloader, batch 0", why, "python train.py +debug=limit_batches"
        if self.grad_norm == 0:
            return "training_step", "every gradient is 0: the loss does not depend on the network", look
        if self.losses[-1] < -1 and self.accuracy is not None:
            why = "the loss falls below 0 and the answers stay wrong: its sign is flipped, or it has no lower bound"
            return "training_step", why, "python train.py +debug=trace"
        if course == "diverged":
            why = f"{moved}; about {TYPICAL_UPDATE:g} is usual: the learning rate is too high"
            return f"optimizer.lr={highest:g}", why, f"{again} optimizer.lr={highest / 10:g}"
        if rate_now < rate / 100:
            where = f"lr_scheduler: learning rate {rate:g} -> {rate_now:.1e} in {self._taken(trainer)} steps"
            why = "the schedule ends training before it began; perhaps it steps by batches and not by epochs"
            return where, why, "set the scheduler's interval to epoch, or its length in steps"
        if clip is not None and self.grad_norm > 100 * clip:  # the weights may still move, by weight decay
            why = f"the gradient's norm of {self.grad_norm:.2g} is cut down to {clip:g}"
            return f"trainer.gradient_clip_val={clip:g}", why, f"{again} trainer.gradient_clip_val=1.0"
        if self.update < TYPICAL_UPDATE / 5:
            why = f"{moved}; about {TYPICAL_UPDATE:g} is usual: the learning rate is too low"
            larger = rate * 3 * TYPICAL_UPDATE / max(self.update, 1e-12)
            return f"optimizer.lr={rate:g}", why, f"{again} optimizer.lr={larger:.1g}"
        values = self._repeated(trainer, pl_module)
        if max(values) - min(values) > 1e-4 * abs(max(values)):
            why = f"the same weights and batch have a loss of {min(values):.4g} and of {max(values):.4g}: it is random"
            return f"{own}.training_step", why, "take out what draws at random: labels, noise, functional.dropout"
        slower = self._with_lower_rate(trainer, pl_module)
        if slower is not None:
            why = f"too high: from the same weights, a tenth of it leads to a loss of {slower:.4g} in {TRIED} steps"
            return f"optimizer.lr={highest:g}", why, f"{again} optimizer.lr={highest / 10:g}"
        criterion = self._hopeless(pl_module)
        if criterion is not None:
            return *criterion, "python train.py +debug=trace"
        why = (
            "the optimizer holds the parameters, they have gradients and move, and still it does not learn: "
            "the outputs do not fit the criterion, or the inputs don't tell the samples apart"
        )
        return "the network or the criterion", why, "python train.py +debug=trace"

    def _hopeless(self, pl_module: LightningModule) -> tuple[str, str] | None:
        """Return where a criterion's own arguments leave nothing to learn, and why."""
        for path, module in pl_module.named_modules():
            if not isinstance(module, nn.CrossEntropyLoss | nn.NLLLoss):
                continue
            smoothing, weight = getattr(module, "label_smoothing", 0.0), module.weight
            if smoothing > 0.9:
                return f"{path}.label_smoothing={smoothing:g}", "it asks for the same probability of every class"
            if self.logits.value is not None and 0 <= module.ignore_index < self.logits.value.shape[1]:
                return f"{path}.ignore_index={module.ignore_index}", "samples of that class count nothing"
            zeros = 0 if weight is None else int((weight == 0).sum())
            if zeros and 2 * zeros >= len(weight):
                return f"{path}.weight", f"{zeros} of {len(weight)} classes have a weight of 0: they count nothing"
        return None

    def _with_lower_rate(self, trainer: Trainer, pl_module: LightningModule) -> float | None:
        """Return the loss that a copy with a tenth of the learning rate reaches, where that is another result."""
        if len(trainer.optimizers) != 1 or not pl_module.automatic_optimization:
            return None
        try:
            attempt = Attempt(trainer, pl_module, [rate / 10 for rate in self.highest_rates])
            attempt.module.load_state_dict(self.initial, strict=False)
            attempt.optimizer.state.clear()
            attempt.train([self.last_batch], TRIED)
        except (TypeError, RuntimeError):  # of the user's own attributes, which cannot be copied
            return None
        return attempt.after if attempt.after < min(self.losses) / 2 else None

    def _repeated(self, trainer: Trainer, pl_module: LightningModule) -> list[float]:
        """Return the loss of the last batch, computed several times with other random numbers."""
        arguments = (self.last_batch, 0)[: len(inspect.signature(pl_module.training_step).parameters)]
        values = []
        with unwatched(pl_module), unchanged(pl_module), torch.no_grad(), trainer.precision_plugin.forward_context():
            for seed in range(3 if pl_module.automatic_optimization else 0):
                torch.manual_seed(seed)
                result = pl_module.training_step(*arguments)
                values.append(float(result["loss"] if isinstance(result, dict) else result))
        return values or [0.0]


def groups(trainer: Trainer) -> list[dict[str, Any]]:
    return [group for optimizer in trainer.optimizers for group in optimizer.param_groups]


def learning_rates(trainer: Trainer) -> list[float]:
    return [float(group["lr"]) for group in groups(trainer)] or [0.0]


def flat(pl_module: LightningModule) -> Tensor:
    """Return all trainable parameters as one vector."""
    parameters = [parameter.detach() for parameter in pl_module.parameters() if parameter.requires_grad]
    return torch.cat([parameter.flatten().float() for parameter in parameters])


def entropy_of_smoothing(smoothing: float, classes: int) -> float:
    """Return the least loss that label smoothing allows: the entropy of the smoothed labels (Szegedy et al. 2016)."""
    other = smoothing / classes
    right = 1 - smoothing + other
    return -(right * math.log(right) + (classes - 1) * other * math.log(other))


def all_equal(batch: Any) -> bool:
    """Whether all samples of the batch have the same input."""
    inputs = next(tensors(batch), None)
    return inputs is not None and inputs.ndim > 1 and len(inputs) > 1 and bool((inputs == inputs[:1]).all())


def shown(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
