import inspect
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional

from training_checklist.instruments import (
    CheckedStep,
    Places,
    around_apply,
    double,
    is_float,
    is_own,
    of_function,
    pass_on,
    tensors,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

STEP = 1e-4  # of a difference in float64, in shares of the largest value

# Of one call at each place, the arguments, and the positions of those that get a gradient.
Applications = dict[tuple[type[Function], Place], tuple[tuple[Any, ...], list[int]]]


def detect(step: CheckedStep, limits: Limits) -> Hits:
    found: Applications = {}
    step.watched_by(partial(applied, step, found))
    reason = "training_step applies no autograd.Function of the project's own"
    judged, wrong = {}, set()
    for (function, place), (args, checked) in found.items():
        name = function.__name__
        for position in checked:
            try:
                slopes = step.slopes(of_one(function, args, position), args[position], name)
            except CannotJudge as error:
                reason = f"{name}: {error}"
                continue
            judged[name] = True
            differs = slopes.differ(limits.wrong_backward)
            call = of_one(function, args, position)
            if differs and (quantises(call, args[position]) or lets_back(call, args[position])):
                continue
            if differs:
                wrong.add(name)
                given = input_name(function, position)
                yield Hit(
                    f"the backward of {name} is not the slope of its forward for input {given}: {slopes}",
                    of_function(function.backward).beside(note=f"applied in {place}"),
                    fix=Fix(
                        f"correct what backward returns for {given}; gradients that are meant to differ need a "
                        "forward that is the identity, or constant in steps, to be told from mistakes"
                    ),
                )
            if not slopes.agree:
                break
    step.said += [f"{name} agrees" for name in judged if name not in wrong]
    if not judged:
        raise CannotJudge(reason)


@contextmanager
def applied(step: CheckedStep, found: Applications) -> Any:
    """Keep the arguments of the project's own autograd functions, in float64, of one call for each place."""
    found.clear()
    places = Places(step.pl_module)

    def keep(apply: Callable[..., Any], function: type[Function], args: tuple[Any, ...]) -> Any:
        if torch.is_grad_enabled() and is_own(inspect.getsourcefile(function) or "<"):
            checked = [index for index, arg in enumerate(args) if is_float(arg) and arg.requires_grad]
            found.setdefault((function, places.here()), (tuple(map(double, args)), checked))
        return pass_on(apply, *args)

    with around_apply(keep):
        yield


def of_one(function: type[Function], args: tuple[Any, ...], position: int) -> Callable[[Tensor], tuple[Tensor, ...]]:
    """Return a function of one of its inputs alone."""

    def call(value: Tensor) -> tuple[Tensor, ...]:
        given = [value if index == position else arg for index, arg in enumerate(args)]
        # Clones: some functions work in place.
        result = function.apply(*(arg.clone() if isinstance(arg, Tensor) else arg for arg in given))
        return tuple(tensor for tensor in tensors(result) if tensor.requires_grad)

    return call


def lets_back(call: Callable[[Tensor], tuple[Tensor, ...]], value: Tensor) -> bool:
    """Whether a function that cuts its input off lets gradients of one sign through there, which lead back.

    As the lower bound of Ballé's entropy models does; one that lets all through has forgotten where it cuts off.
    """
    noise = torch.randn(value.shape, generator=torch.Generator().manual_seed(0), dtype=value.dtype).to(value.device)
    value = (value + value.abs().max() * noise).detach().requires_grad_()  # on both sides of a bound
    results, step = call(value), STEP * value.abs().max().detach()
    if len(results) != 1 or results[0].shape != value.shape:
        return False
    here = results[0].detach()
    ahead, behind = ((call((value + way).detach().requires_grad_())[0].detach() - here) / way for way in (step, -step))
    [up], [down] = (torch.autograd.grad(results[0], value, sign * torch.ones_like(here), True) for sign in (1, -1))
    is_smooth = torch.isclose(ahead, behind, atol=STEP)
    agrees = [torch.isclose(each, ahead, atol=STEP) | ~is_smooth for each in (up, -down)]
    elsewhere = [bool((each | (ahead == 0)).all()) for each in agrees]
    return [bool(each.all()) for each in agrees].count(True) == 1 and all(elsewhere)


def quantises(call: Callable[[Tensor], tuple[Tensor, ...]], value: Tensor) -> bool:
    """Whether most values that a function returns occur again, as levels do whose scale its input makes (XNOR-Net).

    Gradients pass such steps as if they were not there. Of what is only cut off, most values are single ones.
    """
    results = call(value.detach().requires_grad_())
    if len(results) != 1 or results[0].shape != value.shape:
        return False
    return float(results[0].detach().unique(return_counts=True)[1].double().median()) > 1


def input_name(function: type[Function], position: int) -> str:
    names = list(inspect.signature(function.forward).parameters)
    names = names if function.setup_context is not Function.setup_context else names[1:]  # without ctx
    return names[position] if position < len(names) else f"number {position}"


def doubled(slope: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Make a loss with twice the answers in it, by a Function that gives them a slope."""

    class Doubled(Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:
            return 2 * value

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return slope * gradient

    return lambda answers, labels: functional.cross_entropy(Doubled.apply(answers), labels)


def bounded(back: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """Make a loss whose answers are at least 0, and may rise from there by their gradient; or all gradients pass."""

    class Bounded(Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:
            ctx.save_for_backward(value)
            return value.clamp(min=0)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            [value] = ctx.saved_tensors
            return torch.where((value >= 0) | (gradient < 0), gradient, 0) if back else gradient

    return lambda answers, labels: functional.cross_entropy(Bounded.apply(answers), labels)


def binary(answers: Tensor, labels: Tensor) -> Tensor:
    """Take the signs of answers, times their mean size."""

    class Binary(Function):
        @staticmethod
        def forward(ctx: Any, value: Tensor) -> Tensor:
            return value.sign() * value.abs().mean()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

    return functional.cross_entropy(Binary.apply(answers), labels)


PROBE = Probe(
    question="Does the backward of each autograd.Function of the project match a numerical gradient of its forward?",
    why="the optimizer follows a gradient that is not the loss's, and nothing raises",
    fix=Fix("correct what backward returns"),
    detect=detect,
    thresholds={
        "wrong_backward": Threshold(
            0.01,
            "of the larger slope: central differences with a step of 1e-3 are off by its square, 1e-6, and a "
            "forward that computes in float32 by about 1e-7 / 1e-3 = 1e-4; a factor that was forgotten is off by half",
            faulty=doubled(2.04),
            healthy=doubled(2.01),
        )
    },
    faulty=doubled(1.0),
    healthy=doubled(2.0),
    also_faulty=(bounded(back=False),),
    also_healthy=(bounded(back=True), binary),
)
