"""Analytical against numerical gradients: of the criterion, and of every autograd.Function that the project defines."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from statistics import median
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.utils._pytree import tree_map

from training_checklist.engines.batches import leaves, tensors
from training_checklist.engines.places import of_function
from training_checklist.engines.replay import call_step, isolated, loss_in, seed_all
from training_checklist.engines.tracer import Tracer
from training_checklist.engines.uncopied import Uncopied
from training_checklist.evidence.gradcheck import FunctionSlopes, LossSlopes, Slopes, Trial, apart
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
SUM_ROUNDING = 1e-2  # of probabilities in bfloat16, which keeps 8 bits of each
DIRECTIONS = 5  # random; their median is not moved by two that cross a kink


class Gradcheck(Experiment):
    """Compares the gradient of the criterion, and of each autograd.Function, with the slope of its forward pass.

    Not judged, because meant: detached parts, functions that only change the gradient (forward is the identity, as in
    gradient reversal), and those whose slope is 0 everywhere (rounding with a straight-through gradient).

    Args:
        samples: of the first batch, to be quick; all of it where the step does not take fewer.
        max_values: numbers in an input up to which every one of them is checked; beyond, random directions are.
        atol: allowed absolute difference.
        rtol: allowed relative difference.
    """

    item = "gradcheck"

    def __init__(self, samples: int, max_values: int, atol: float, rtol: float) -> None:
        super().__init__()
        self.samples, self.max_values, self.atol, self.rtol = samples, max_values, atol, rtol
        self.done = False

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if self.done:
            return
        self.done = True
        if not pl_module.automatic_optimization:
            self.skip("training_step optimises itself, so that it cannot be repeated")
            return
        # What the first samples cannot be cut from needs all of them: graphs, and weights that the criterion keeps.
        try:
            self._check(pl_module, first(batch, self.samples))
        except Exception:
            try:
                self._check(pl_module, batch)
            except Exception as error:  # the step itself comes next, and raises it where it is the project's own
                self.skip(f"the step cannot be repeated: {type(error).__name__}: {str(error).splitlines()[0]}")

    def _check(self, pl_module: LightningModule, batch: Any) -> None:
        with isolated(pl_module):
            with Outputs(pl_module) as outputs, Applications(pl_module) as applications:
                call_step(pl_module, "training_step", batch)
            functions = [found for each in applications.found.values() for found in self._functions(each)]
            losses = list(self._losses(pl_module, batch, outputs))
        told = [loss for loss in losses if not loss.slopes.reason]
        # What the loss does not depend on tells nothing, unless there is nothing else.
        self.judge(*(told or losses[:1]), *functions)
        agree = dict.fromkeys(each.name for each in functions if not each.slopes.reason)
        agree = [name for name in agree if not any(f"backward of {name} " in finding.what for finding in self.findings)]
        criterion = "" if told else f"criterion not checked: {losses[0].slopes.reason}"
        if told and not self.has_found("gradcheck/loss-not-its-slope"):
            criterion = f"criterion agrees for {sum(loss.values for loss in told)} outputs of {outputs.name}"
        self.seen = "; ".join(part for part in (criterion, *(f"{name} agrees" for name in agree)) if part)

    def _functions(self, application: Application) -> Iterator[FunctionSlopes]:
        """Yield what one function comes to for each of its inputs, up to the first that is wrong."""
        for position in application.checked:
            slopes = self._compare(application.of(position), application.args[position])
            name, place = application.function.__name__, of_function(application.function.backward)
            yield FunctionSlopes(name, application.name_of(position), slopes, place, application.place)
            if slopes.trials and not slopes.trials[-1].agrees:
                return

    def _losses(self, pl_module: LightningModule, batch: Any, outputs: "Outputs") -> Iterator[LossSlopes]:
        """Check the loss as a function of each tensor that the network answers with; the others stay as they are."""
        if outputs.module is None:
            yield LossSlopes("", Slopes(reason="no part of the network answers with tensors that have a gradient"))
            return
        batch, stops, place = double(batch), Stops(), of_function(type(pl_module).training_step)
        answers = [apply_to_collection(answer, Tensor, double) for answer in outputs.answers]
        for tensor in (*pl_module.parameters(), *pl_module.buffers()):
            tensor.data = double(tensor.data)

        def loss(changed: Tensor, position: int) -> Tensor:
            stops.restart()
            calls = iter(given(answers, normalised[position](changed), position))
            outputs.module.__dict__["forward"] = lambda *_, **__: next(calls)
            seed_all()
            with Tracer(pl_module, stops), around_apply(stops.around):
                return loss_in(call_step(pl_module, "training_step", batch)).double()

        values = list(tensors(answers))
        normalised = {position: normalisation(values[position]) for position in outputs.with_gradient}
        try:
            for position, name in outputs.with_gradient.items():
                value = values[position]
                try:
                    slopes = self._compare(partial(loss, position=position), value)
                except Exception as error:  # of code that was not written for float64
                    slopes = Slopes(reason=f"not in float64: {type(error).__name__}: {str(error).splitlines()[0]}")
                yield LossSlopes(name, slopes, value.numel(), place)
        finally:
            outputs.module.__dict__.pop("forward", None)

    def _compare(self, call: Callable[[Tensor], Any], value: Tensor) -> Slopes:
        """Return trials of which the last agrees, where one does."""
        found = Slopes()
        for shift, step in TRIALS:
            generator = torch.Generator().manual_seed(0)
            noise = torch.rand(value.shape, generator=generator, dtype=value.dtype).to(value.device)
            # Away from 0, so that what is defined on one side of it only still is.
            moved = (value + shift * noise * (value + value.abs().mean() * value.sign())).requires_grad_()
            slopes = slopes_of(call, moved, step)
            if slopes is None:
                return Slopes(reason="it has no slope, or only the gradient's is meant")
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
            found.trials.append(Trial(fine, slopes))
            if fine:
                break
        return found


class Outputs:
    """While it is entered, keeps what the last of the outermost modules that learn answers with: what the loss is of.

    Attributes:
        answers: of that module, one for each of its calls.
        with_gradient: names of the tensors in them that have one, by their position among all tensors.
    """

    def __init__(self, pl_module: LightningModule) -> None:
        self.modules = {child: name for name, child in pl_module.named_children()}
        self.modules[pl_module] = type(pl_module).__name__
        self.module: nn.Module | None = None
        self.of: dict[nn.Module, list[Any]] = {}

    def __enter__(self) -> "Outputs":
        self.handles = [module.register_forward_hook(Uncopied(self._keep)) for module in self.modules]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _keep(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self.of.setdefault(module, []).append(output)
        learns = any(True for _ in module.parameters())
        if learns and any(is_answer(tensor) for tensor in tensors(output)):
            self.module = module

    @property
    def name(self) -> str:
        return self.modules[self.module]

    @property
    def answers(self) -> list[Any]:
        return self.of[self.module]

    @property
    def with_gradient(self) -> dict[int, str]:
        calls = [f" in call {number} of {len(self.answers)}" for number in range(1, len(self.answers) + 1)]
        found = [
            (f"{place}{call if len(calls) > 1 else ''}", tensor)
            for call, answer in zip(calls, self.answers, strict=True)
            for place, tensor in leaves(answer, self.name).items()
        ]
        return {position: name for position, (name, tensor) in enumerate(found) if is_answer(tensor)}


def is_answer(tensor: Tensor) -> bool:
    """Whether a tensor has values for samples, and a gradient."""
    return is_float(tensor) and tensor.ndim > 0 and tensor.requires_grad


def normalisation(value: Tensor) -> Callable[[Tensor], Tensor]:
    """Return what leaves outputs as they are, and makes probabilities of what a step away from them is none.

    A criterion of log-probabilities may give them the gradient of the logits, as that of ctc_loss does: a slope towards
    values that are no probabilities is not asked of it.
    """
    for dim in (dim for dim in (-1, 1) if value.ndim > 1 and value.shape[dim] > 1):
        if close_to(value.logsumexp(dim), 0.0):
            return lambda answer: answer.log_softmax(dim)
        if value.min() >= 0 and close_to(value.sum(dim), 1.0):
            return lambda answer: answer / answer.sum(dim, keepdim=True)
    return lambda answer: answer


def close_to(values: Tensor, number: float) -> bool:
    return bool(((values - number).abs() <= SUM_ROUNDING).all())


def given(answers: list[Any], changed: Tensor, position: int) -> list[Any]:
    """Return copies of answers, for what works in place, with another tensor at one position."""
    counter = count()
    return apply_to_collection(answers, Tensor, lambda each: (changed if next(counter) == position else each).clone())


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


def first(batch: Any, samples: int) -> Any:
    """Return the first samples of a batch."""
    return tree_map(lambda part: part[:samples] if isinstance(part, Tensor) and part.ndim else part, batch)
