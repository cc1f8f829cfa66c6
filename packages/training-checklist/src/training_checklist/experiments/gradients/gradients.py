"""The gradients of the first steps: which are missing, zero, not finite, too small or too large, and why."""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from statistics import median
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from training_checklist.engines.around_step import around_step
from training_checklist.engines.graph import leaf_tensors
from training_checklist.engines.own_code import is_own
from training_checklist.engines.parameter_names import gather, shown
from training_checklist.engines.places import of_function
from training_checklist.engines.rehearsal import usual_rates
from training_checklist.engines.replay import loss_in, reported_loss
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.evidence.gradients import (
    AlongDepth,
    ClippedSteps,
    EqualRows,
    GradientNorms,
    Missing,
    MissingGradients,
    SharedLayers,
    Updates,
    ZeroGradients,
)
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.gradients.activations import BatchNorms, FlatUnits
from training_checklist.experiments.gradients.backward_graph import BackwardGraph
from training_checklist.experiments.gradients.gradient_sizes import Signals
from training_checklist.experiments.gradients.later_epochs import unfrozen_later
from training_checklist.experiments.gradients.optimizer_holdings import Holdings, is_of_library, one_in_several_places
from training_checklist.experiments.gradients.optimizer_steps import OptimizerSteps, gradient_norms
from training_checklist.experiments.gradients.sample_leak import SampleLeak
from training_checklist.finding import NOWHERE, Finding, Place
from training_checklist.lab.effects import copied_parameters
from training_checklist.lightning import LightningModule, TensorBoardLogger, Trainer, is_overridden

HISTOGRAM_EVERY = 5  # steps
MIXERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # in which nobody means a constant but 0
BETWEEN = ("on_after_backward", "on_before_optimizer_step", "configure_gradient_clipping", "optimizer_step")


class Backwards(Listener):
    """Tells of the backward passes in a step that drives its optimizers itself."""

    def __init__(self, before: Callable[[Tensor], None], after: Callable[[], None]) -> None:
        self._before, self._after = before, after

    def before(self, call: Call) -> None:
        if call.name == "backward" and call.given:
            self._before(call.given[0])

    def after(self, call: Call) -> None:
        if call.name == "backward" and call.given:
            self._after()


class AroundStep:
    """A tracer, and what must be done when all hooks before a step have run."""

    def __init__(self, tracer: Tracer, begin: Callable[[], None]) -> None:
        self.tracer, self.begin = tracer, begin

    def __enter__(self) -> None:
        self.begin()
        self.tracer.__enter__()

    def __exit__(self, *error: Any) -> None:
        self.tracer.__exit__(*error)


class Gradients(Experiment):
    """Watches the first steps: every operation and the graph of the first one, gradients and weights of all."""

    item = "gradients"

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []
        self.norms: dict[str, list[float | None]] = {}  # of a parameter's gradient, by step
        self.steps: dict[int, OptimizerSteps] = {}  # of each optimizer, by its id
        self.constant: dict[str, bool] = {}  # weights that begin with equal rows, and whether they are not 0
        self.equal: set[str] = set()  # those of them whose rows have not parted in any step
        self.losses_of: dict[str, Tensor] = {}  # of a parameter: what the first step of its optimizer follows
        self.loss: Tensor | None = None  # of the last backward pass of the first step
        self.copied: dict[str, set[str]] = {}
        self.reaching = 0  # backward passes that led to a trained parameter
        self.around = ExitStack()
        self.root: LightningModule | None = None
        self.holdings: Holdings | None = None
        self.graph: BackwardGraph | None = None
        self.signals: Signals | None = None
        self.leak: SampleLeak | None = None
        self.tracer: Tracer | None = None
        self.units, self.batch_norms = FlatUnits(), BatchNorms()
        self.first = False  # whether the first training step is at work
        self.on = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if isinstance(trainer.limit_train_batches, int):
            trainer.limit_train_batches *= trainer.accumulate_grad_batches

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.optimizers:
            self.skip("configure_optimizers returns no optimizer")
            return
        self.on, self.root, self.copied = True, pl_module, copied_parameters(pl_module)
        self.holdings, self.graph = Holdings(pl_module, trainer.optimizers), BackwardGraph(pl_module)
        with suppress(Exception):  # of the project's hooks, in epochs that the run does not have
            later = unfrozen_later(trainer, pl_module)
            self.judge(*[later] if later is not None else [])
        rates = usual_rates(trainer)
        self.steps = {
            id(optimizer): OptimizerSteps(optimizer, rates[id(optimizer)]) for optimizer in trainer.optimizers
        }
        listeners: list[Listener] = [self.graph, self.batch_norms, self.units]
        if not pl_module.automatic_optimization:
            listeners.insert(0, Backwards(self._before_backward, self._after_backward))
        self.tracer = Tracer(pl_module, *listeners)
        self.around.enter_context(
            around_step(pl_module, AroundStep(self.tracer, self._begin_step), tell=self._keep_loss)
        )

    def _begin_step(self) -> None:
        """Look at the model as the project's own hooks have left it."""
        self.units.start_step()
        if self.leak is not None:
            return
        self.first = True
        self.holdings.take()
        self.leak, self.signals = SampleLeak(self.root), Signals(self.root)
        self.graph.start()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.on and pl_module.automatic_optimization:
            self._before_backward(loss)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.on and pl_module.automatic_optimization:
            self._after_backward()

    def _keep_loss(self, result: Any) -> None:
        """Lightning divides what a step returns by the batches that it accumulates, which makes another tensor."""
        if self.first and loss_in(result) is not None:
            self.loss = loss_in(result)

    def _before_backward(self, loss: Tensor) -> None:
        for steps in self.steps.values():
            steps.before_backward()
        reached = set(leaf_tensors([loss]))
        self.reaching += any(id(p) in reached for p in self.holdings.trained.values())
        if not self.first:
            return
        self.holdings.reached |= reached
        self.holdings.take()  # the forward pass may have made some
        self.constant = self.constant or {
            name: bool(p.any()) for name, p in self.holdings.trained.items() if has_equal_rows(p)
        }
        self.equal |= set(self.constant)
        if not self.root.automatic_optimization:
            self.loss = loss
        self.graph.watch()
        if not loss.requires_grad:
            # A step that drives several optimizers freezes what the others hold, if it uses toggle_optimizer.
            self._judge_missing([name for name, p in self.holdings.trained.items() if p.requires_grad])

    def _after_backward(self) -> None:
        for steps in self.steps.values():
            steps.after_backward()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        if not self.on:
            return
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        names = [name for name, p in self.holdings.trained.items() if id(p) in own]
        norms = dict(zip(names, gradient_norms(self.holdings.trained[name] for name in names), strict=True))
        for name, norm in norms.items():
            if self.loss is not None:
                self.losses_of.setdefault(name, self.loss)
            self.norms.setdefault(name, []).append(norm)
        self._log(trainer, {name: norm for name, norm in norms.items() if norm is not None})

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self.on:
            return
        loss = reported_loss(outputs, trainer)
        if loss is not None:
            self.losses.append(float(loss))
        # Looked at now: a callback may put averaged weights, or the first ones, in their place when training ends.
        self.equal = {name for name in self.equal if has_equal_rows(self.holdings.trained[name])}
        if self.first:
            self._end_first_step(trainer)

    def _end_first_step(self, trainer: Trainer) -> None:
        self.first = False
        self.tracer.listeners = tuple(
            each for each in self.tracer.listeners if not isinstance(each, (BackwardGraph, BatchNorms))
        )
        self.graph.stop()
        self.leak.stop()
        self.holdings.take()
        self.judge(*self.holdings.decays(), *self.holdings.frozen_modules())
        self.judge(self.holdings.inventory(self.graph), SharedLayers(list(one_in_several_places(self.root))))
        if self.root.automatic_optimization:  # else a generator may answer a second time, for another loss
            self.judge(self.batch_norms.evidence())
        self.batch_norms.inputs.clear()
        if len(trainer.optimizers) > 1:  # networks that train against each other may compare samples
            return
        try:
            with trainer.precision_plugin.forward_context():
                mixing = self.leak.find()
        except Exception as error:  # of a module that cannot be called again, or not in eval mode
            self.facts["samples"] = f"not compared: {type(error).__name__}: {error}"
        else:
            self.judge(mixing)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        self._leave()

    def explain(self, error: Exception) -> Finding | None:
        return self.findings[0] if self.findings and "does not require grad" in str(error) else None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.on:
            return
        self._leave()
        between, zeroing = hooks_between(trainer, self.root), self._zeroing()
        several, known = len(self.steps) > 1, [steps for steps in self.steps.values() if steps.effects]
        names = {parameter: name for name, parameter in pl_module.named_parameters()}
        self.judge(*(steps.evidence(between, zeroing, several) for steps in known))
        self.judge(*filter(None, (steps.rounding(names) for steps in known)))
        made = of_function(type(pl_module).configure_optimizers)
        self.judge(*(betas for steps in known for betas in steps.betas(made)))
        self.judge(*clipped(trainer, pl_module, [[effect.got for effect in steps.effects] for steps in known]))
        if self.norms:
            self._judge_steps(trainer)
            self._tell()
        self.graph = self.loss = self.leak = None  # they hold the tensors of a step
        self.losses_of.clear()

    def _leave(self) -> None:
        self.on = False
        self.around.close()
        for watched in (self.graph, self.leak):
            if watched is not None:
                watched.stop()
        if self.signals is not None:
            self.signals.remove()
        for steps in self.steps.values():
            steps.finish()

    def _judge_steps(self, trainer: Trainer) -> None:
        """Judge causes first; what only may follow from them is judged where there are none."""
        scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
        self.judge(GradientNorms(self.norms, self.losses, trainer.accumulate_grad_batches, scaled))
        zero = [name for name in self.norms if self._is_always(name, 0)]
        self._judge_rows(zero)
        # What backward had reached was taken away later.
        reached = {name for name, p in self.holdings.trained.items() if id(p) in self.holdings.reached}
        self._judge_missing([name for name in self.norms if self._is_always(name, None) and name not in reached])
        if not self.has_found("gradients/equal-rows"):
            self._judge_zero(zero)
        if self.has_found():
            return
        units = self.units.evidence()
        self.facts["flat_units"] = [[str(each.place), each.dead, each.total, each.rows] for each in units.functions]
        self.judge(units)
        if len(trainer.optimizers) == 1:  # of several losses, none has one depth
            self.judge(AlongDepth(self.signals.medians()))
        for steps in self.steps.values():
            if steps.ratios and self.losses:
                kept, moments = max(steps.kept, default=1.0), steps.second_moments()
                self.judge(*([] if moments is None else [moments]))
                self.judge(Updates(steps.ratios, self.losses, steps.rate or 0.0, kept))

    def _zeroing(self) -> Place:
        if not self.root.automatic_optimization:
            return of_function(type(self.root).training_step)
        if is_overridden("optimizer_zero_grad", self.root):
            return of_function(type(self.root).optimizer_zero_grad)
        return Place(note="a callback, or the optimizer")

    def _judge_missing(self, names: list[str]) -> None:
        """Record why parameters have no gradient: the cut on their way to the loss, or that there is no way."""
        trained = self.holdings.trained
        causes: dict[tuple[Any, ...], list[str]] = {}
        for name in names:
            if not trained[name].numel():
                continue
            cause = self._cause(name)
            if cause.how in ("unused", "no_grad") and not self.copied.get(name, set()) <= set(names):
                continue  # a copy of weights that do get a gradient, such as those of an earlier step
            if not is_of_library(self.root, name) or self._fills_optimizer(names):
                causes.setdefault((cause.how, cause.operation, cause.place, cause.between), []).append(name)
        groups = []
        for (how, operation, place, between), inside in causes.items():
            path = ", ".join(path for path, _ in gather(inside, trained))
            owner = self.root.get_submodule(path.rpartition(".")[0] if how == "unused" and "," not in path else "")
            by_hand = not self.root.automatic_optimization and not self._fills_optimizer(inside)
            meant = by_hand or isinstance(owner, (nn.ModuleList, nn.ModuleDict))
            groups.append(Missing(path, inside, how, operation, place, between, meant))
        leaves = leaf_tensors([] if self.loss is None or self.reaching else [self.loss])
        made = next((self.graph.leaves[leaf] for leaf in leaves if leaf in self.graph.leaves), None)
        self.judge(MissingGradients(len(trained), groups, made))

    def _cause(self, name: str) -> Missing:
        cut = self.graph.cut(self.holdings.trained[name], self.losses_of.get(name, self.loss))
        if cut is None:
            return Missing(name, [name], "unused")
        owner = f"{name.rpartition('.')[0]}."
        outer = next((path for path in self.graph.without_grad if owner.startswith(f"{path}.")), None)
        if outer is not None:
            return Missing(name, [name], "no_grad", outer, self.graph.without_grad[outer])
        return Missing(name, [name], "cut", cut.operation, cut.place, cut.between)

    def _fills_optimizer(self, names: list[str]) -> bool:
        """Whether they are all that some optimizer has, so that its steps do nothing."""
        missing = {id(self.holdings.trained[name]) for name in names}
        return any(held and held <= missing for held in self.holdings.held)

    def _judge_rows(self, zero: list[str]) -> None:
        """Equal rows compute the same, for ever; those of a head that starts from zero part in the first step."""
        held = [name for name in self.constant if self.holdings.holders(name)]
        still = [name for name in held if name in self.equal and (any(self.norms.get(name, ())) or name in zero)]
        owner = {name: self.root.get_submodule(name.rpartition(".")[0]) for name in held}
        filled = [name for name in held if self.constant[name] and isinstance(owner[name], MIXERS)]
        steps = max(map(len, self.norms.values()))
        self.judge(EqualRows(filled, still, zero, len(self.norms), steps))

    def _judge_zero(self, names: list[str]) -> None:
        trained = self.holdings.trained
        if max(map(len, self.norms.values())) < 2:
            return
        # A bias alone may be followed by a norm, which takes it away.
        weights = [name for name in names if trained[name].ndim > 1 and trained[name].numel()]
        death = self.graph.kill(trained[name] for name in weights)
        if death is None:  # nothing that was seen made them 0: they may have been given nothing to work on
            self.judge(ZeroGradients([], len(self.norms)))
        else:
            self.judge(ZeroGradients(names, len(self.norms), death.operation, death.place))

    def _is_always(self, name: str, norm: float | None) -> bool:
        return all(value == norm for value in self.norms[name])

    def _log(self, trainer: Trainer, norms: dict[str, float]) -> None:
        step = trainer.global_step
        for writer in (logger.experiment for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)):
            for name, norm in norms.items():
                writer.add_scalar(f"gradient_norm/{name}", norm, step)
                if step % HISTOGRAM_EVERY == 0 and math.isfinite(norm):
                    writer.add_histogram(f"gradient/{name}", self.holdings.trained[name].grad.to_dense(), step)

    def _tell(self) -> None:
        ratios = [ratio for steps in self.steps.values() for ratio in steps.ratios]
        frozen = self.holdings.frozen
        self.facts |= {"gradient_norms": self.norms, "updates": ratios, "frozen": frozen}
        self.facts["signals"] = self.signals.medians()
        known = [norm for norms in self.norms.values() for norm in norms if norm]
        sizes = f"norms {min(known):.1e} to {max(known):.1e}" if known else "no gradient"
        self.seen = f"{len(self.norms)} parameters, {max(map(len, self.norms.values()))} steps: {sizes}"
        self.seen += f", weights change by {median(ratios):.1e} a step" if ratios else ""
        self.seen += f"; frozen: {shown(frozen)}" if frozen else ""


def hooks_between(trainer: Trainer, pl_module: LightningModule) -> Place:
    """Return the project's own code that runs between backward and the optimizer's step."""
    if not pl_module.automatic_optimization:
        return of_function(type(pl_module).training_step)
    parts = [pl_module, *(callback for callback in trainer.callbacks if not isinstance(callback, Experiment))]
    hooks = [getattr(type(part), hook) for part in parts for hook in BETWEEN if is_overridden(hook, part)]
    own = [of_function(hook) for hook in hooks if is_own(inspect.getsourcefile(inspect.unwrap(hook)) or "<")]
    if not own:
        return Place(note="no hook of the project's own comes between backward and the step")
    others = ", ".join(place.function for place in own[1:])
    return own[0].beside(note=f"or {others}" if others else "")


def has_equal_rows(parameter: Tensor) -> bool:
    if parameter.ndim < 2 or len(parameter) < 2 or parameter[0].numel() < 2:
        return False
    return bool((parameter == parameter[:1]).all())


def clipped(trainer: Trainer, pl_module: LightningModule, norms: list[list[float]]) -> Iterator[ClippedSteps]:
    """Yield the norms of each optimizer's gradients, by step, where Lightning is to clip them by their norm."""
    limit, by = trainer.gradient_clip_val, trainer.gradient_clip_algorithm
    # Scaled gradients are divided again before they are clipped; a strategy that shards them knows no whole norm here.
    if limit and pl_module.automatic_optimization and str(getattr(by, "value", by) or "norm") == "norm":
        own = is_overridden("configure_gradient_clipping", pl_module)
        place = of_function(type(pl_module).configure_gradient_clipping) if own else NOWHERE
        yield from (ClippedSteps(float(limit), each, place) for each in norms)
