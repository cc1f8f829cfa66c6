"""One step that is looked at: hooks that are there for this step alone, and what they have seen when it is over."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from training_checklist.engines.around_step import around_step
from training_checklist.engines.batches import tensors
from training_checklist.engines.tracer import Listener, Tracer
from training_checklist.engines.uncopied import after_forward
from training_checklist.lab.along_depth import Signals, learning_modules
from training_checklist.lab.flat_units import ActivationCall, FlatUnits
from training_checklist.lab.optimizer_steps import dense
from training_checklist.lightning import LightningModule

ENTRIES = 4096  # of each weight that are compared with what they were: a copy of all would double the weights' memory


@dataclass(frozen=True)
class WatchedStep:
    """One step of an optimizer.

    Args:
        step: of the training.
        ratio: how far it moved the weights, of their norm; exactly 0 where none has changed.
        gradient: norm of the gradients that it was given.
        rate: its greatest learning rate, None where it has none.
        moved: whether a weight is another than at the look before; None of the first one.
    """

    step: int
    ratio: float
    gradient: float
    rate: float | None = None
    moved: bool | None = None


@dataclass
class Looked:
    """What one look has seen.

    Args:
        step: of the training.
        epoch: that it lies in.
        steps: of each optimizer that took one, by its place among them.
        gradients: norm of the gradient at the output of each module, by its path.
        scales: root of the mean square of each module's output.
        units: calls of activation functions, with the units that had a slope.
    """

    step: int
    epoch: int
    steps: dict[int, WatchedStep] = field(default_factory=dict)
    gradients: dict[str, float] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)
    units: list[ActivationCall] = field(default_factory=list)


class Eager:
    """While it is entered, compiled networks run as they are written: their modules are hidden from hooks else."""

    def __enter__(self) -> None:
        self._stance = torch.compiler.set_stance("force_eager")
        self._stance.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._stance.__exit__(*error)


class Units(Listener):
    """Tells of activation functions alone, and never raises into the step."""

    def __init__(self, flat: FlatUnits, quietly: Callable[[Callable[..., None]], Callable[..., None]]) -> None:
        self.after = quietly(flat.after)


class Look:
    """Watches one step, from its making until `finish`.

    Args:
        network: of which each call of `training_step` is watched.
        optimizers: all of them.
        known: some entries of the weights of each, as they were when it was looked at last; is kept up to date.
        fail: is told what goes wrong here; the step goes on.
    """

    def __init__(
        self,
        network: LightningModule,
        optimizers: list[Optimizer],
        known: dict[int, list[Tensor]],
        fail: Callable[[Exception], None],
    ) -> None:
        self.known, self.fail = known, fail
        self.stack = ExitStack()
        self.flat, self.signals = FlatUnits(), Signals(network)
        self.stack.callback(self.signals.remove)
        self._scales: dict[str, Tensor] = {}
        self._since: dict[int, Tensor] = {}  # how far the weights are from those of the look before
        self._moved: dict[int, tuple[Tensor, Tensor, Tensor, float | None]] = {}
        for name, module in learning_modules(network):
            self._keep(after_forward(module, self._quietly(partial(self._measure, name))))
        for index, optimizer in enumerate(optimizers):
            self._keep(optimizer.register_step_pre_hook(self._quietly(partial(self._before_step, index))))
            self._keep(optimizer.register_step_post_hook(self._quietly(partial(self._after_step, index))))
        tracer = Tracer(network, Units(self.flat, self._quietly))
        self.stack.enter_context(around_step(network, Eager(), tracer))

    def finish(self, step: int, epoch: int) -> Looked:
        """Take every hook away, and return what they have seen."""
        self.stack.close()
        return Looked(step, epoch, self._steps(step), self.signals.medians(), numbers(self._scales), self.flat.calls)

    def _keep(self, handle: Any) -> None:
        self.stack.callback(handle.remove)

    def _quietly(self, function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function, assigned=())
        def quiet(*arguments: Any, **options: Any) -> None:
            try:
                function(*arguments, **options)
            except Exception as error:
                self.fail(error)

        return quiet

    def _measure(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        first = next((tensor for tensor in tensors(output) if tensor.is_floating_point()), None)
        if first is not None and first.numel():
            norm = torch.linalg.vector_norm(first.detach(), dtype=torch.promote_types(first.dtype, torch.float32))
            self._scales[name] = norm / math.sqrt(first.numel())

    def _before_step(self, index: int, optimizer: Optimizer, *_: Any) -> None:
        now, before = [sample(weight).clone() for weight in weights(optimizer)], self.known.get(index)
        if before is not None and index not in self._moved:
            self._since[index] = get_total_norm(differences(now, before))
        self.known[index] = now

    def _after_step(self, index: int, optimizer: Optimizer, *_: Any) -> None:
        before, now = self.known[index], [sample(weight) for weight in weights(optimizer)]
        gradients = [dense(p.grad) for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        moved = differences(now, before)
        rates = [float(group["lr"]) for group in optimizer.param_groups if group.get("lr") is not None]
        # Of several steps in one batch the last one counts.
        self._moved[index] = *map(get_total_norm, (moved, before, gradients)), max(rates, default=None)

    def _steps(self, step: int) -> dict[int, WatchedStep]:
        found = {}
        for index, (moved, size, gradient, rate) in self._moved.items():
            ratio = float(moved) / float(size) if size else 0.0
            since = None if index not in self._since else bool(self._since[index])
            found[index] = WatchedStep(step, ratio, float(gradient), rate, since)
        return found


def differences(now: list[Tensor], before: list[Tensor]) -> list[Tensor]:
    """Return the changes of weights that are what they were; those that the project has replaced are left out."""
    pairs = zip(now, before, strict=False)
    return [new - old for new, old in pairs if new.shape == old.shape and new.device == old.device]


def weights(optimizer: Optimizer) -> list[Tensor]:
    """Return what has more than one dimension, or all where nothing has: biases begin at 0, and move by any ratio."""
    every = [p for group in optimizer.param_groups for p in group["params"] if not is_lazy(p) and p.numel()]
    return [p for p in every if p.ndim > 1] or every


def sample(weight: Tensor) -> Tensor:
    """Return some entries of a weight, of this rank's part of it where it is spread."""
    local = weight.detach()
    local = local.to_local() if hasattr(local, "to_local") else local
    return local.flatten()[:: max(1, local.numel() // ENTRIES)]


def numbers(values: dict[str, Tensor]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}
