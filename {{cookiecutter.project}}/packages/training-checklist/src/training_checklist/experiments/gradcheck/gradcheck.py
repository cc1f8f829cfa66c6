"""Analytical against numerical gradients: of the criterion, and of every autograd.Function that the project defines."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.utils._pytree import tree_map

from training_checklist.engines.batches import tensors
from training_checklist.engines.own_code import shorten
from training_checklist.engines.replay import unchanged, unwatched
from training_checklist.experiments.experiment import Experiment
from training_checklist.experiments.gradcheck.autograd_functions import (
    Application,
    Applications,
    Stops,
    around_apply,
    double,
    is_float,
)
from training_checklist.lightning import LightningModule, Trainer

# (shift of the input, in its own scale; step of the numerical gradient). Differences must show in all of them: a kink
# is left by a shift, and the noise of a function that computes in float32 inside by a longer step.
TRIALS = ((0.0, 1e-6), (1e-2, 1e-6), (2e-2, 1e-3))
NOT_JUDGED = "not judged"
DIRECTIONS = 5


class Gradcheck(Experiment):
    """Fails where the gradient of the criterion, or of an autograd.Function, is not the slope of its forward pass.

    Not judged, because meant: detached parts, functions that only change the gradient (forward is the identity, as in
    gradient reversal), and those whose slope is 0 everywhere (rounding with a straight-through gradient).

    Args:
        samples: of the first batch, to be quick.
        max_values: numbers in an input up to which every one of them is checked; beyond, random directions are.
        atol: allowed absolute difference.
        rtol: allowed relative difference.
    """

    item = "gradcheck"

    def __init__(self, samples: int, max_values: int, atol: float, rtol: float) -> None:
        super().__init__()
        self.samples, self.max_values, self.atol, self.rtol = samples, max_values, atol, rtol
        self.checked = 0
        self.done = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.done:
            return
        self.done = True
        if not pl_module.automatic_optimization:
            self.skip("training_step optimises itself, so that it cannot be repeated")
            return
        few = first(batch, self.samples)
        with unwatched(pl_module), unchanged(pl_module), weights_kept(pl_module):
            with Outputs(pl_module) as outputs, Applications(pl_module) as applications:
                pl_module.training_step(few, 0)
            agree = [application for application in applications.found.values() if self._judge(application)]
            criterion = self._judge_criterion(pl_module, few, outputs)
        seen = [criterion, *(f"{each.function.__name__} agrees" for each in agree)]
        self.seen = "; ".join(part for part in seen if part)
        if not self.findings and not self.checked:
            self.skip(f"nothing to check: {criterion}")

    def _judge(self, application: Application) -> bool:
        """Check one function for each of its inputs, and return whether anything was checked and nothing was found."""
        name, judged = application.function.__name__, 0
        for position in application.checked:
            value = application.args[position]
            slopes = self._differ(application.of(position), value)
            judged += slopes is not NOT_JUDGED
            if isinstance(slopes, list):
                line = inspect.getsourcelines(application.function.backward)[1]
                file = shorten(inspect.getsourcefile(application.function))
                input_name = application.name_of(position)
                self.fail(
                    f"the backward of {name} is not the slope of its forward for input {input_name}: {said(slopes)}",
                    f"{name}.backward ({file}:{line}), applied in {application.place}",
                    "the optimizer follows a gradient that is not the loss's, and nothing raises",
                    f"correct what backward returns for {input_name}; gradients that are meant to "
                    "differ need a forward that is the identity, or constant in steps, to be told from mistakes",
                )
                return False
        self.checked += judged
        return judged > 0

    def _judge_criterion(self, pl_module: LightningModule, batch: Any, outputs: "Outputs") -> str:
        """Check the loss as a function of the network's output, and return what was done."""
        if outputs.module is None or outputs.calls > 1:
            times = "no single tensor with a gradient" if outputs.module is None else f"{outputs.calls} times in a step"
            return f"criterion not checked: the network answers {times}"
        batch, stops, value = double(batch), Stops(), double(outputs.value)
        for tensor in (*pl_module.parameters(), *pl_module.buffers()):
            tensor.data = double(tensor.data)

        def loss(answer: Tensor) -> Tensor:
            stops.restart()
            outputs.module.__dict__["forward"] = lambda *_, **__: answer
            torch.manual_seed(0)
            with stops, around_apply(stops.around):
                result = pl_module.training_step(batch, 0)
            return (result["loss"] if isinstance(result, dict) else result).double()

        try:
            slopes = self._differ(loss, value)
        except Exception as error:  # of code that was not written for float64
            return f"criterion not checked in float64: {type(error).__name__}: {str(error).splitlines()[0]}"
        finally:
            del outputs.module.__dict__["forward"]
        if slopes is NOT_JUDGED:
            return "criterion not checked: it has no slope"
        self.checked += 1
        if slopes is None:
            return f"criterion agrees for {value.numel()} outputs of {outputs.name}"
        self.fail(
            f"the gradient of the loss is not its slope, as a function of what {outputs.name} returns: {said(slopes)}",
            f"{type(pl_module).__name__}.training_step, between {outputs.name} and the loss",
            "the optimizer follows a gradient that is not the loss's, and nothing raises",
            "look for .item(), float(), numpy and .data there, hooks on tensors, and backward methods",
        )
        return ""

    def _differ(self, call: Callable[[Tensor], Any], value: Tensor) -> list[tuple[float, float]] | str | None:
        """Return analytical and numerical slopes where they differ, None where not, or NOT_JUDGED."""
        found = []
        for shift, step in TRIALS:
            generator = torch.Generator().manual_seed(0)
            noise = torch.rand(value.shape, generator=generator, dtype=value.dtype).to(value.device)
            # Away from 0, so that what is defined on one side of it only still is.
            moved = (value + shift * noise * (value + value.abs().mean() * value.sign())).requires_grad_()
            slopes = slopes_of(call, moved, step)
            if slopes is None:
                return NOT_JUDGED
            if moved.numel() > self.max_values:
                # Not gradcheck's fast_mode, which allows atol times the number of values: a factor 2 passes.
                fine = median(map(apart, slopes)) <= 10 * self.rtol
            else:
                fine = gradcheck(
                    call,
                    (moved,),
                    eps=step,
                    atol=self.atol,
                    rtol=self.rtol,
                    raise_exception=False,
                    check_undefined_grad=False,  # training gives every output a gradient
                    nondet_tol=self.atol,
                )
            if fine:
                return None
            found.append(slopes)
        return found[0] if all(max(map(apart, slopes)) > 10 * self.rtol for slopes in found) else None


class Outputs:
    """While it is entered, keeps the last output (B, ...) of the outermost modules that learn: what the loss is of."""

    def __init__(self, pl_module: LightningModule) -> None:
        self.modules = {child: name for name, child in pl_module.named_children()}
        self.modules[pl_module] = type(pl_module).__name__
        self.module: nn.Module | None = None
        self.count: dict[nn.Module, int] = {}

    def __enter__(self) -> "Outputs":
        self.handles = [module.register_forward_hook(self._keep) for module in self.modules]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _keep(self, module: nn.Module, inputs: Any, output: Any) -> None:
        learns = any(True for _ in module.parameters())
        if learns and is_float(output) and output.ndim > 1 and output.requires_grad:
            self.module, self.value, self.name = module, output.detach(), self.modules[module]
            self.count[module] = self.count.get(module, 0) + 1

    @property
    def calls(self) -> int:
        return self.count[self.module]


@contextmanager
def weights_kept(pl_module: LightningModule) -> Iterator[None]:
    """Afterwards the parameters are what they were, whatever type they had inside."""
    kept = [(weight, weight.data) for weight in pl_module.parameters()]
    try:
        yield
    finally:
        for weight, data in kept:
            weight.data = data


def slopes_of(call: Callable[[Tensor], Any], value: Tensor, step: float) -> list[tuple[float, float]] | None:
    """Return (analytical, numerical) slopes along random directions, None of what has none or is the identity."""
    generator = torch.Generator().manual_seed(1)
    results = [result for result in tensors(call(value)) if result.requires_grad]
    # On both sides of 0: what is cut off on one of them only is no identity.
    if not results or all(returned(call, each) for each in (value, -value)):
        return None
    weights = [torch.randn(each.shape, generator=generator, dtype=torch.float64).to(each.device) for each in results]

    def total(at: Tensor) -> Tensor:
        return sum((each * weight).sum() for each, weight in zip(tensors(call(at)), weights, strict=True))

    [gradient] = torch.autograd.grad(total(value), value, materialize_grads=True)
    slopes = []
    for _ in range(DIRECTIONS):
        direction = torch.randn(value.shape, generator=generator, dtype=torch.float64).to(value.device)
        way = step * direction
        ahead, behind = total((value + way).detach().requires_grad_()), total((value - way).detach().requires_grad_())
        slopes.append((float((gradient * direction).sum()), float((ahead - behind).detach()) / (2 * step)))
    finite = all(abs(slope) < float("inf") for pair in slopes for slope in pair)
    return slopes if finite and any(numerical for _, numerical in slopes) else None


def returned(call: Callable[[Tensor], Any], value: Tensor) -> bool:
    """Whether a function gives back what it is given."""
    value = value.detach().requires_grad_()
    return any(result.shape == value.shape and torch.equal(result, value) for result in tensors(call(value)))


def apart(slopes: tuple[float, float]) -> float:
    """Return how far two slopes are apart, relative to the larger one."""
    return abs(slopes[0] - slopes[1]) / max(*map(abs, slopes), 1e-9)


def said(slopes: list[tuple[float, float]]) -> str:
    analytical, numerical = max(slopes, key=apart)
    times = f" ({analytical / numerical:.3g} times it)" if numerical else ""
    return f"along a random direction {analytical:.6g} analytically{times}, {numerical:.6g} numerically"


def first(batch: Any, samples: int) -> Any:
    """Return the first samples of a batch."""
    return tree_map(lambda part: part[:samples] if isinstance(part, Tensor) and part.ndim else part, batch)
