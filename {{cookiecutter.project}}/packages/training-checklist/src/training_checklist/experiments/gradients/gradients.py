"""The gradients of the first steps: which are missing, zero, not finite, too small or too large, and why."""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from statistics import median
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from training_checklist.engines.criterion_calls import around_training_step
from training_checklist.engines.replay import reported_loss
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.gradients.backward_graph import BackwardGraph, Cut
from training_checklist.experiments.gradients.gradient_sizes import (
    Signals,
    Updates,
    along_depth,
    gradient_norms,
    steepest_part,
)
from training_checklist.experiments.gradients.optimizer_holdings import Holdings, gather, one_in_several_places, shown
from training_checklist.experiments.gradients.sample_leak import SampleLeak
from training_checklist.finding import Finding
from training_checklist.lightning import LightningModule, TensorBoardLogger, Trainer, is_overridden

HISTOGRAM_EVERY = 5  # steps
MIXERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # in which nobody means a constant but 0


class Gradients(Experiment):
    """Fails where a parameter has no sound gradient, where no or two optimizers hold it, and where samples mix.

    Args:
        vanishing: least ratio of the gradients at the outputs of the first modules to those of the last.
        exploding: greatest such ratio.
        min_update: least change of the weights in a step, relative to their norm.
        max_update: greatest such change where the loss rises.
    """

    item = "gradients"

    def __init__(self, vanishing: float, exploding: float, min_update: float, max_update: float) -> None:
        super().__init__()
        self.vanishing, self.exploding = vanishing, exploding
        self.min_update, self.max_update = min_update, max_update
        self.losses: list[float] = []
        self.norms: dict[str, list[float | None]] = {}  # of a parameter's gradient, by step
        self.zeroed: set[int] = set()  # optimizers whose gradients were zero since their last step
        self.kept: dict[int, list[bool]] = {}  # of an optimizer: whether they were not, by step
        self.graph: BackwardGraph | None = None
        self.leak: SampleLeak | None = None
        self.around: AbstractContextManager | None = None  # of the graph, while it is recorded
        self.losses_of: dict[str, Tensor] = {}  # of a parameter: what the first step of its optimizer follows
        self.loss: Tensor | None = None  # of the last backward pass that was recorded
        self.reported: set[str] = set()  # parameters whose cause is told

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if isinstance(trainer.limit_train_batches, int):
            trainer.limit_train_batches *= trainer.accumulate_grad_batches

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.optimizers:
            self.skip("configure_optimizers returns no optimizer")
            return
        self.holdings = Holdings(pl_module, trainer.optimizers)
        self.trained = self.holdings.trained
        self._fail_all(self.holdings.held_twice())
        for finding in one_in_several_places(pl_module):
            self.warn(*finding)
        self.constant = {name: bool(p.any()) for name, p in self.trained.items() if has_equal_rows(p)}
        self.signals, self.updates = Signals(pl_module), Updates(self.trained.values(), trainer.optimizers)
        self._owner = lambda name: pl_module.get_submodule(name.rpartition(".")[0])
        self.graph = BackwardGraph(pl_module)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.skipped:
            return
        if batch_idx % trainer.accumulate_grad_batches == 0:
            self.updates.before_step()
        if self.leak is None:
            self.leak = SampleLeak(pl_module)
            self.around = around_training_step(pl_module, self.graph, tell=self._keep_loss)
            self.around.__enter__()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if not self.skipped:
            self.zeroed |= {id(optimizer) for optimizer in trainer.optimizers if not has_gradients(optimizer)}
        if self.around is None:
            return
        if not pl_module.automatic_optimization:
            self.loss = loss
        self.graph.watch()
        if pl_module.automatic_optimization:  # else further losses follow in this step
            self._leave()
        if not loss.requires_grad:
            # A step that drives several optimizers freezes what the others hold, if it uses toggle_optimizer.
            self._judge_missing([name for name, p in self.trained.items() if p.requires_grad], pl_module)

    def _keep_loss(self, result: Any) -> None:
        """Lightning divides what a step returns by the batches that it accumulates, which makes another tensor."""
        loss = result.get("loss") if isinstance(result, dict) else result
        if isinstance(loss, Tensor):
            self.loss = loss

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if pl_module.automatic_optimization and not self.norms and not self.skipped:
            self._judge_holdings()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        if self.skipped:
            return
        self.kept.setdefault(id(optimizer), []).append(id(optimizer) not in self.zeroed)
        self.zeroed.discard(id(optimizer))
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        norms = gradient_norms({name: p for name, p in self.trained.items() if id(p) in own})
        for name, norm in norms.items():
            if self.loss is not None:
                self.losses_of.setdefault(name, self.loss)
            self.norms.setdefault(name, []).append(norm)
        self._log(trainer, {name: norm for name, norm in norms.items() if norm is not None})

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.skipped:
            return
        loss = reported_loss(outputs, trainer)
        if loss is not None:
            self.losses.append(float(loss))
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self.updates.after_step()
        if self.around is not None:  # a step that drives its optimizers itself, or one without backward
            self._leave()
            self._judge_holdings()
        if len(self.losses) == 1:
            self._judge_samples(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._leave()

    def explain(self, error: Exception) -> Finding | None:
        return self.findings[0] if self.findings and "does not require grad" in str(error) else None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.skipped:
            return
        self.signals.remove()
        self._judge_finite(trainer)
        self._judge_kept(pl_module)
        self._judge_state(trainer)
        self._judge_rows()
        self._judge_missing([name for name in self.norms if self._is_always(name, None)], pl_module)
        self._judge_zero()
        self._judge_depth()
        self._judge_updates()
        self.graph = self.loss = None  # they hold the tensors of a step
        self.losses_of.clear()
        self._tell()

    def _leave(self) -> None:
        if self.around is not None:
            self.graph.stop()
            self.around.__exit__(None, None, None)
            self.around = None

    def _judge_holdings(self) -> None:
        self._fail_all([*self.holdings.held_by_none(), *self.holdings.unregistered(self.graph)])

    def _judge_missing(self, names: list[str], pl_module: LightningModule) -> None:
        """Tell why parameters have no gradient: by the cut on their way to the loss, or because there is no way."""
        causes: dict[str, list[str]] = {}
        for name in names:
            causes.setdefault(self._cause(name), []).append(name)
        for cause, inside in causes.items():
            where = ", ".join(path for path, _ in gather(inside, self.trained))
            unused = cause.startswith("unused")
            freeze = f"freeze {where} with requires_grad_(False)"
            owner = pl_module.get_submodule(where.rpartition(".")[0] if unused and "," not in where else "")
            deliberate = isinstance(owner, (nn.ModuleList, nn.ModuleDict)) or not (
                pl_module.automatic_optimization or self._fill_optimizer(inside)
            )
            (self.warn if deliberate else self.fail)(
                f"{len(inside)} of {len(self.trained)} parameters get no gradient: {where}",
                f"{cause}; {shown(inside)}",
                "they stay as they are, whatever the loss does",
                f"use it, remove it, or {freeze}" if unused else f"take the operation out; if it is meant, {freeze}",
            )

    def _fill_optimizer(self, names: list[str]) -> bool:
        """Whether they are all that some optimizer has, so that its steps do nothing."""
        missing = {id(self.trained[name]) for name in names}
        return any(held and held <= missing for held in self.holdings.held)

    def _cause(self, name: str) -> str:
        cut = self.graph.cut(self.trained[name], self.losses_of.get(name, self.loss))
        if cut is None:
            return "unused: nothing that the loss is made of depends on it"
        owner = f"{name.rpartition('.')[0]}."
        outer = next((path for path in self.graph.without_grad if owner.startswith(f"{path}.")), None)
        if outer is not None:
            return f"{outer} runs under torch.no_grad(), called at {self.graph.without_grad[outer]}"
        return f"detached {cut}" if isinstance(cut, Cut) and cut.after else f"detached by {cut}"

    def _judge_finite(self, trainer: Trainer) -> None:
        bad = {name: [i for i, n in enumerate(row) if not math.isfinite(n or 0)] for name, row in self.norms.items()}
        names = [name for name, steps in bad.items() if steps]
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        if not names or (scaler is not None and not any(len(bad[name]) == len(self.norms[name]) for name in names)):
            return  # a scaler skips the steps with which it looks for its scale
        first = min(bad[name][0] for name in names)
        names = [name for name in names if bad[name][0] == first]
        loss = self.losses[min(first * trainer.accumulate_grad_batches, len(self.losses) - 1)] if self.losses else 0.0
        next_item = "anomaly" if math.isfinite(loss) else "overflow"
        self.reported |= set(bad)
        self.fail(
            f"{len(names)} of {len(self.norms)} gradients are NaN or Inf in step {first}, at a loss of {loss:.4g}",
            shown(names),
            "every weight that they update is NaN after this step",
            f"python train.py +debug={next_item} names the operation that makes it",
        )

    def _judge_kept(self, pl_module: LightningModule) -> None:
        steps = max((len(later) - 1 for later in self.kept.values() if all(later[1:])), default=0)  # after the first
        if steps < 2:
            return
        hook = "optimizer_zero_grad" if is_overridden("optimizer_zero_grad", pl_module) else ""
        hook = hook if pl_module.automatic_optimization else "training_step"
        self.fail(
            f"gradients are never zeroed: in all of {steps} steps those of the step before are still there",
            f"{type(pl_module).__name__}.{hook}" if hook else "a callback, or the optimizer",
            "each step follows the sum of the gradients of all steps before it, which belong to other weights",
            "optimizer.zero_grad() before each backward pass; to accumulate: trainer.accumulate_grad_batches=4",
        )

    def _judge_state(self, trainer: Trainer) -> None:
        """An optimizer that counts its steps, as Adam does, and has lost count."""
        for optimizer in trainer.optimizers:
            taken = len(self.kept.get(id(optimizer), []))
            counts = [int(state["step"]) for state in optimizer.state.values() if "step" in state]
            if taken > 2 and counts and max(counts) <= 1:
                name = type(optimizer).__name__
                self.fail(
                    f"{name} has taken {taken} steps and remembers {max(counts)}: its state is thrown away",
                    f"the state of {name}: a hook of the LightningModule or a callback that clears or rebuilds it",
                    "without its averages over past gradients each step has the size of the first, whatever the slope",
                    "leave optimizer.state alone, and build the optimizer once, in configure_optimizers",
                )

    def _judge_rows(self) -> None:
        """Equal rows compute the same, for ever; those of a head that starts from zero part in the first step."""
        still = [name for name in self.constant if has_equal_rows(self.trained[name])]
        filled = [name for name, value in self.constant.items() if value and isinstance(self._owner(name), MIXERS)]
        names = [name for name in self.constant if name in {*still, *filled} and self.holdings.holders(name)]
        if names:
            zero = [name for name in self.norms if self._is_always(name, 0)]
            self.reported |= {*names, *zero}
            after = f", and still after {len(self.updates.ratios)} steps" if still else ""
            zeros = f"; the gradients of {len(zero)} of {len(self.norms)} parameters are exactly 0" if zero else ""
            self.fail(
                f"all rows of {shown(names)} are equal at the start{after}{zeros}",
                shown(names),
                "units that start equal get equal gradients: the layer has one unit, however wide it is",
                "initialise at random (nn.init.kaiming_normal_, xavier_uniform_); a constant is for biases and norms",
            )

    def _judge_zero(self) -> None:
        names = [name for name in self.norms if self._is_always(name, 0) and name not in self.reported]
        is_bias = all(self.trained[name].ndim < 2 for name in names)  # which a norm may follow
        if is_bias or len(self.updates.ratios) < 2:
            return
        deaths = {self.graph.kill(self.trained[name]) for name in names} - {None}
        first = max(deaths, key=self.graph.deaths.index, default=None)  # zeros there make zeros behind it
        self.reported |= set(names)
        self.fail(
            f"the gradients of {len(names)} of {len(self.norms)} parameters are exactly 0 in all steps",
            f"{first or 'the loss'}; {shown(names)}",
            "backward is given a gradient there and passes only zeros on: a factor 0, a ReLU that is 0 for "
            "every sample, a function without a slope (sign, round, clamp), or an input of zeros",
            "python train.py +debug=trace shows what goes in and out of each module",
        )

    def _judge_depth(self) -> None:
        sizes = self.signals.medians()
        found = None if self.reported else along_depth(sizes, self.vanishing, self.exploding)
        if found is not None:
            kind, ratio = found
            (first, *_, last), (begin, end) = sizes, steepest_part(sizes)
            self.fail(
                f"gradients {kind} along depth: {sizes[first]:.1e} at {first}, {sizes[last]:.1e} at {last}",
                f"{first} to {last}: {len(sizes)} modules, a factor {ratio ** (1 / len(sizes)):.2g} each; "
                f"most of it from {begin} to {end}",
                "the first layers hardly learn" if kind == "vanish" else "every step throws the first layers about",
                "ReLU or GELU for sigmoid or tanh, residual connections, norms, initialisation by kaiming, xavier",
            )

    def _judge_updates(self) -> None:
        if not self.updates.ratios or not self.losses or self.findings:
            return
        least, most, rate = median(self.updates.ratios), max(self.updates.ratios), self.updates.rate
        first, last = self.losses[0], sum(self.losses[-3:]) / len(self.losses[-3:])
        is_low = least < self.min_update and last > 0.9 * first
        is_high = most > self.max_update and last > 1.5 * abs(first)
        if is_low or is_high:
            kind, factor, ratio = ("low", 1000, least) if is_low else ("high", 0.01, most)
            self.fail(
                f"a step changes the weights by {ratio:.1e} of their norm; 1e-3 is usual",
                f"the optimizer's lr={rate:g}",
                f"the learning rate is too {kind}, or gradients are clipped: loss {first:.4g} to {last:.4g}",
                f"python train.py +debug=gradients optimizer.lr={rate * factor:.1g}",
            )

    def _judge_samples(self, trainer: Trainer) -> None:
        with trainer.precision_plugin.forward_context():
            found = list(self.leak.find())
        for operation, place, size in found:
            self.fail(
                f"one sample changes the outputs of the others: {operation} mixes the {size} samples of the batch",
                place,
                "what the model answers for a sample depends on what happens to be beside it, also in eval mode",
                "let it work along the features: softmax(dim=-1), mean(dim=1), batch_first=True",
            )

    def _fail_all(self, findings: Iterable[tuple[str, str, str, str]]) -> None:
        for finding in findings:
            self.fail(*finding)

    def _is_always(self, name: str, norm: float | None) -> bool:
        return all(value == norm for value in self.norms[name])

    def _log(self, trainer: Trainer, norms: dict[str, float]) -> None:
        step = trainer.global_step
        for writer in (logger.experiment for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)):
            for name, norm in norms.items():
                writer.add_scalar(f"gradient_norm/{name}", norm, step)
                if step % HISTOGRAM_EVERY == 0 and math.isfinite(norm):
                    writer.add_histogram(f"gradient/{name}", self.trained[name].grad.to_dense(), step)

    def _tell(self) -> None:
        frozen = self.holdings.frozen
        self.facts |= {"gradient_norms": self.norms, "updates": self.updates.ratios, "frozen": frozen}
        self.facts["signals"] = self.signals.medians()
        known = [norm for norms in self.norms.values() for norm in norms if norm]
        sizes = f"norms {min(known):.1e} to {max(known):.1e}" if known else "no gradient"
        self.seen = f"{len(self.norms)} parameters, {len(self.updates.ratios)} steps: {sizes}"
        self.seen += f", weights change by {median(self.updates.ratios):.1e} a step" if self.updates.ratios else ""
        self.seen += f"; frozen: {shown(frozen)}" if frozen else ""


def has_gradients(optimizer: Optimizer) -> bool:
    gradients = (parameter.grad for group in optimizer.param_groups for parameter in group["params"])
    return any(bool(gradient.any()) for gradient in gradients if gradient is not None)


def has_equal_rows(parameter: Tensor) -> bool:
    if parameter.ndim < 2 or len(parameter) < 2 or parameter[0].numel() < 2:
        return False
    return bool((parameter == parameter[:1]).all())
