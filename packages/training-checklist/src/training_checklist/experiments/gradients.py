"""The gradients of the first steps: which are missing, zero, not finite, too small or too large, and why."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from statistics import median
from typing import Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torchmetrics import Metric

from training_checklist.engines.around_step import around_step
from training_checklist.engines.graph import last_weights, leaf_tensors
from training_checklist.engines.parameter_names import shown
from training_checklist.engines.rehearsal import usual_rates
from training_checklist.engines.replay import loss_in, reported_loss
from training_checklist.engines.splits import samples_of
from training_checklist.engines.tracer import Call, Listener, Tracer
from training_checklist.engines.uncopied import before_forward
from training_checklist.experiments.experiment import Experiment
from training_checklist.finding import Finding
from training_checklist.lab.along_depth import Signals
from training_checklist.lab.backward_graph import BackwardGraph
from training_checklist.lab.first_steps import FirstSteps, NormPass
from training_checklist.lab.optimizer_steps import OptimizerSteps, gradient_norms
from training_checklist.lightning import LightningModule, TensorBoardLogger, Trainer

HISTOGRAM_EVERY = 5  # steps
KEPT = 4  # calls of outermost modules


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


class BatchNorms(Listener):
    """Keeps the inputs of batch normalisation in the mode of training."""

    def __init__(self) -> None:
        self.inputs: dict[int, list[NormPass]] = {}

    def before(self, call: Call) -> None:
        mean = self._mean(call)
        if mean is not None:
            value = call.argument("input", 0)
            self.inputs.setdefault(id(mean), []).append(NormPass(value.detach(), call.place))

    def after(self, call: Call) -> None:
        mean = self._mean(call)
        if mean is not None and call.result.requires_grad:
            call.result.register_hook(self.inputs[id(mean)][-1].use)

    def _mean(self, call: Call) -> Tensor | None:
        """Return the running mean that a call updates."""
        if call.name != "batch_norm" or not call.is_functional or not call.argument("training", 5, False):
            return None
        mean = call.argument("running_mean", 1)
        return mean if isinstance(mean, Tensor) else None


class Gradients(Experiment):
    """Watches the first steps: every operation and the graph of the first one, gradients and weights of all."""

    item = "gradients"
    begins_anew = True

    def __init__(self, topics: Sequence[str]) -> None:
        super().__init__(topics)
        self.known: FirstSteps | None = None
        self.steps: dict[int, OptimizerSteps] = {}  # of each optimizer, by its id
        self.norms: dict[str, list[float | None]] = {}
        self.around = ExitStack()
        self.tracer: Tracer | None = None
        self.batch_norms = BatchNorms()
        self.handles: list[Any] = []  # of hooks that the first step alone needs
        self.begun = self.first = self.on = False  # whether the first training step has begun, and is at work

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if isinstance(trainer.limit_train_batches, int):
            trainer.limit_train_batches *= trainer.accumulate_grad_batches

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.known is not None and not self.begun:
            self.known.size = samples_of(batch, trainer.train_dataloader)

    def _ask(self, **known: Any) -> None:
        """Ask what can be answered now and was not before."""
        self.ask([probe for probe in self.probes if probe.id not in self.judged], self.known, **known)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.optimizers:
            self.skip("configure_optimizers returns no optimizer")
            return
        self.on, self.known = True, FirstSteps(trainer, pl_module)
        self._ask()
        rates = usual_rates(trainer)
        self.steps = {
            id(optimizer): OptimizerSteps(optimizer, rates[id(optimizer)]) for optimizer in trainer.optimizers
        }
        listeners: list[Listener] = [self.known.graph, self.batch_norms, self.known.units]
        if not pl_module.automatic_optimization:
            listeners.insert(0, Backwards(self._before_backward, self._after_backward))
        self.tracer = Tracer(pl_module, *listeners)
        self.around.enter_context(
            around_step(pl_module, AroundStep(self.tracer, self._begin_step), tell=self._keep_loss)
        )

    def _begin_step(self) -> None:
        """Look at the model as the project's own hooks have left it."""
        known, root = self.known, self.known.pl_module
        known.units.start_step()
        if self.begun:
            return
        self.begun = self.first = True
        known.holdings.take()
        made = ((name, p) for name, p in known.holdings.trained.items() if not is_lazy(p) and p.numel())
        known.closed = [name for name, p in made if p.ndim < 2 and "bias" not in name and not p.any()]
        known.signals = Signals(root)
        modules = [root, *(module for module in root.children() if not isinstance(module, Metric))]
        self.handles = [before_forward(module, self._keep_call, with_kwargs=True) for module in modules]
        known.graph.start()

    def _keep_call(self, module: Any, arguments: Any, options: Any) -> None:
        calls, root = self.known.calls, self.known.pl_module
        if len(calls) < KEPT and all(outer is not root for outer, _ in calls):
            calls.append((module, (arguments, options)))

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        if self.on and pl_module.automatic_optimization:
            self._before_backward(loss)

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.on and pl_module.automatic_optimization:
            self._after_backward()

    def _keep_loss(self, result: Any) -> None:
        """Lightning divides what a step returns by the batches that it accumulates, which makes another tensor."""
        if self.first and loss_in(result) is not None:
            self.known.loss = loss_in(result)

    def _before_backward(self, loss: Tensor) -> None:
        known, holdings = self.known, self.known.holdings
        for steps in self.steps.values():
            steps.before_backward()
        reached = set(leaf_tensors([loss]))
        known.reaching += any(id(p) in reached for p in holdings.trained.values())
        if not self.first:
            return
        holdings.reached |= reached
        holdings.take()  # the forward pass may have made some
        known.constant = known.constant or {
            name: bool(p.any()) for name, p in holdings.trained.items() if has_equal_rows(p)
        }
        known.equal |= set(known.constant)
        known.last |= last_weights(loss) if known.constant else set()
        if not known.pl_module.automatic_optimization:
            known.loss = loss
        known.graph.watch()
        if not loss.requires_grad:
            # A step that drives several optimizers freezes what the others hold, if it uses toggle_optimizer.
            self._ask(missing=[name for name, p in holdings.trained.items() if p.requires_grad])

    def _after_backward(self) -> None:
        for steps in self.steps.values():
            steps.after_backward()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        if not self.on:
            return
        own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        trained = self.known.holdings.trained
        names = [name for name, p in trained.items() if id(p) in own]
        norms = dict(zip(names, gradient_norms(trained[name] for name in names), strict=True))
        for name, norm in norms.items():
            if self.known.loss is not None:
                self.known.losses_of.setdefault(name, self.known.loss)
            self.norms.setdefault(name, []).append(norm)
        self._log(trainer, {name: norm for name, norm in norms.items() if norm is not None})

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self.on:
            return
        known, loss = self.known, reported_loss(outputs, trainer)
        if loss is not None:
            known.losses.append(float(loss))
        # Looked at now: a callback may put averaged weights, or the first ones, in their place when training ends.
        known.equal = {name for name in known.equal if has_equal_rows(known.holdings.trained[name])}
        if self.first:
            self._end_first_step()

    def _end_first_step(self) -> None:
        self.first = False
        self.tracer.listeners = tuple(
            each for each in self.tracer.listeners if not isinstance(each, (BackwardGraph, BatchNorms))
        )
        self._stop_first()
        self.known.holdings.take()
        self._ask(after_first=self.known.holdings, batch_norms=list(self.batch_norms.inputs.values()))
        self.batch_norms.inputs.clear()
        self.known.calls.clear()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        super().on_exception(trainer, pl_module, exception)
        self._leave()

    def explain(self, error: Exception) -> Finding | None:
        return self.findings[0] if self.findings and "does not require grad" in str(error) else None

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self.on:
            return
        self._leave()
        known = self.known
        watched = list(self.steps.values())
        self._ask(watched=watched, optimizers=[steps for steps in watched if steps.effects])
        if self.norms:
            reached = {name for name, p in known.holdings.trained.items() if id(p) in known.holdings.reached}
            known.norms = self.norms
            # What backward had reached was taken away later.
            self._ask(missing=[name for name in known.always(None) if name not in reached])
            self._ask(is_sound=not self.has_found())  # causes first: what else is seen may only follow from them
            self._tell()
        elif not self.findings:
            self.skip("no optimizer has made a step by Lightning: training_step calls no step() of self.optimizers()")
        known.graph = known.loss = None  # they hold the tensors of a step
        known.losses_of.clear()

    def _stop_first(self) -> None:
        self.known.graph.stop()
        for handle in self.handles:
            handle.remove()

    def _leave(self) -> None:
        self.on = False
        self.around.close()
        if self.begun:
            self.begun = False  # what raises at the end of training comes here again
            self._stop_first()
            self.known.signals.remove()
        for steps in self.steps.values():
            steps.finish()

    def _log(self, trainer: Trainer, norms: dict[str, float]) -> None:
        step = trainer.global_step
        for writer in (logger.experiment for logger in trainer.loggers if isinstance(logger, TensorBoardLogger)):
            for name, norm in norms.items():
                writer.add_scalar(f"gradient_norm/{name}", norm, step)
                weight = self.known.holdings.trained[name]
                if step % HISTOGRAM_EVERY == 0 and math.isfinite(norm) and weight.numel():
                    writer.add_histogram(f"gradient/{name}", weight.grad.to_dense(), step)

    def _tell(self) -> None:
        ratios = [ratio for steps in self.steps.values() for ratio in steps.ratios]
        frozen = self.known.holdings.frozen
        self.facts |= {"gradient_norms": self.norms, "updates": ratios, "frozen": frozen}
        self.facts["signals"] = self.known.signals.medians()
        known = [norm for norms in self.norms.values() for norm in norms if norm]
        sizes = f"norms {min(known):.1e} to {max(known):.1e}" if known else "no gradient"
        self.seen = f"{len(self.norms)} parameters, {self.known.steps} steps: {sizes}"
        self.seen += f", weights change by {median(ratios):.1e} a step" if ratios else ""
        self.seen += f"; frozen: {shown(frozen)}" if frozen else ""


@torch.no_grad()
def has_equal_rows(parameter: Tensor) -> bool:
    if parameter.ndim < 2 or len(parameter) < 2 or parameter[0].numel() < 2:
        return False
    return bool((parameter == parameter[:1]).all())
