from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch
from torch.autograd import Function
from torch.nn import functional
from torchmetrics import Metric

from training_checklist.instruments import (
    Call,
    CheckedStep,
    LightningModule,
    Listener,
    Tracer,
    after_forward,
    all_leaves,
    around_apply,
    call_step,
    double,
    initialized,
    is_float,
    isolated,
    loss_in,
    mapped,
    of_function,
    put,
    seed_all,
    tensors,
    unchanged,
    walk,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

ROUNDING = 1e-2  # of probabilities in bfloat16, which keeps 8 bits of each


def detect(step: CheckedStep, limits: Limits) -> Hits:
    """Check the loss as a function of each tensor that the network answers with; the others stay as they are."""
    pl_module, kept, reason, total, wrong = step.pl_module, [], None, 0, False
    batch = double(step.watched_by(partial(answers_kept, pl_module, kept)))
    # What the last of the outermost modules that learn answers with is what the loss is of.
    learned = (module for module, answer in reversed(kept) if [*module.parameters()] and any(answers_in(answer)))
    last = next(learned, None)
    if not any([*module.parameters()] for module, _ in kept):  # criteria may be called, too
        raise not_checked(step, "training_step calls the forward of modules, and none as module(...), which runs hooks")
    if last is None:
        raise not_checked(step, "no part of the network answers with values for samples that have a gradient")
    name = {child: path for path, child in pl_module.named_children()}.get(last, type(pl_module).__name__)
    answers = answers_of(last, kept)
    doubled, stops = in_double(answers), Stops()
    # Encoders beside or before it would answer the same each time, and take their time for it.
    same = {module: answers_of(module, kept) for module, _ in kept if module not in (last, pl_module)}
    same = {module: in_double(each) for module, each in same.items() if not lead_to(each, answers)}

    def loss(changed: Tensor, position: int, normalise: Callable[[Tensor], Tensor]) -> Tensor:
        stops.restart()
        replay(last, given(doubled, normalise(changed), position))
        for module, each in same.items():
            replay(module, copies(each))
        seed_all()
        # A step may set a weight of the next one's loss: it is the same function each time.
        with unchanged(pl_module), Tracer(pl_module, stops), around_apply(stops.around):
            return loss_in(call_step(pl_module, "training_step", batch)).double()

    # Anomaly mode would keep a stack for each operation of some thousand steps.
    with isolated(pl_module), metrics_in_double(pl_module), torch.autograd.set_detect_anomaly(False):
        for tensor in initialized((*pl_module.parameters(), *pl_module.buffers())):
            tensor.data = double(tensor.data)
        all_put_back = [put(module, "forward", module.forward) for module in (last, *same)]
        try:
            # At once: an answer of a class of its own may keep more tensors with each call.
            values = [tensor for answer in doubled for tensor in tensors(answer)]
            places = zip([*named(answers, name)], values, strict=True)
            for position, (place, value) in enumerate(places):
                if place is None:
                    continue
                try:
                    call = partial(loss, position=position, normalise=normalisation(value))
                    slopes = step.slopes(call, value, "training_step")
                    if (
                        slopes.differ(limits.wrong_loss)
                        and len({repr(call(value).detach().item()) for _ in range(2)}) > 1
                    ):
                        raise CannotJudge("the same step gives another loss: it draws from a generator of its own")
                except CannotJudge as error:  # what the loss does not depend on tells nothing
                    reason = reason or error
                    continue
                total += value.numel()
                if slopes.differ(limits.wrong_loss):
                    wrong = True
                    yield Hit(
                        f"the gradient of the loss is not its slope, as a function of what {place} returns: {slopes}",
                        of_function(type(pl_module).training_step).beside(note=f"between {place} and the loss"),
                    )
        finally:
            for put_back in all_put_back:
                put_back()
    if not total:
        raise not_checked(step, reason)
    step.said += [] if wrong else [f"criterion agrees for {total} outputs of {name}"]


def not_checked(step: CheckedStep, reason: Any) -> CannotJudge:
    step.said.append(f"criterion not checked: {reason}")
    return CannotJudge(step.said[-1])


@contextmanager
def metrics_in_double(pl_module: LightningModule) -> Iterator[None]:
    """Let metrics that a loss is made of add up in float64: what they begin with is no buffer."""
    kept = [(metric, metric._defaults) for metric in pl_module.modules() if isinstance(metric, Metric)]
    for metric, states in kept:
        metric._defaults = double(states)
    try:
        yield
    finally:
        for metric, states in kept:
            metric._defaults = states


@contextmanager
def answers_kept(pl_module: LightningModule, kept: list[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Keep what the outermost modules answer, call by call."""
    kept.clear()
    parts = (*pl_module.children(), pl_module)
    handles = [after_forward(part, lambda module, given, answer: kept.append((module, answer))) for part in parts]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def answers_of(module: nn.Module, kept: list[tuple[nn.Module, Any]]) -> list[Any]:
    return [answer for other, answer in kept if other is module]


def in_double(answers: list[Any]) -> list[Any]:
    return [mapped(answer, double) for answer in answers]


def lead_to(answers: list[Any], others: list[Any]) -> bool:
    """Whether answers were computed from others, as autograd has it; what is detached is a constant in any case."""
    ends = {tensor.grad_fn for tensor in tensors(others)}
    return not ends.isdisjoint(walk(tensor.grad_fn for tensor in tensors(answers)))


def replay(module: nn.Module, answers: list[Any]) -> None:
    """Let a module give these answers, call by call."""
    calls = iter(answers)

    def forward(*_: Any, **__: Any) -> Any:
        answer = next(calls, None)
        if answer is None or functorch.maybe_current_level() is not None:
            raise CannotJudge("the step calls the network within torch.func, too, which takes a slope itself")
        return answer

    module.__dict__["forward"] = forward


def answers_in(answer: Any) -> Iterator[bool]:
    """Whether each tensor has values for samples, and a gradient."""
    return (is_float(tensor) and tensor.ndim > 0 and tensor.requires_grad for tensor in tensors(answer))


def named(answers: list[Any], name: str) -> Iterator[str | None]:
    """Yield where each tensor is in answers, None of one without a gradient."""
    for number, answer in enumerate(answers, 1):
        call = f" in call {number} of {len(answers)}" if len(answers) > 1 else ""
        for place, has_gradient in zip(all_leaves(answer, name), answers_in(answer), strict=True):
            yield f"{place}{call}" if has_gradient else None


class Stops(Listener):
    """Makes constants of what is detached, as autograd does: to stop a gradient is no mistake.

    What is detached must come in the same order each time; `restart` begins again. Where its shape is another one, as
    metrics have it that count distinct scores, it stays as it is.
    """

    def __init__(self) -> None:
        self.values: list[Tensor] = []
        self.restart()

    def restart(self) -> None:
        self.count, self.inside = 0, 0

    def around(self, apply: Callable[..., Any], function: type[Function], args: tuple[Any, ...]) -> Any:
        """Call an autograd function: no gradient is recorded in there, but it has one of its own."""
        self.inside += 1
        try:
            return apply(*args)
        finally:
            self.inside -= 1

    def after(self, call: Call) -> None:
        detaches = call.name == "detach" or call.function is Tensor.data.__get__
        if self.inside or not is_float(call.result) or not (detaches or not torch.is_grad_enabled()):
            return
        self.count += 1
        if self.count > len(self.values):
            self.values.append(call.result.clone())
        before = self.values[self.count - 1]
        call.result = before.clone() if before.shape == call.result.shape else call.result


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
    return bool(((values - number).abs() <= ROUNDING).all())


def copies(answers: list[Any]) -> list[Any]:
    """Return copies of answers, for what works in place."""
    return mapped(answers, Tensor.clone)


def given(answers: list[Any], changed: Tensor, position: int) -> list[Any]:
    """Return copies of answers with another tensor at one position."""
    counter = count()
    return copies(mapped(answers, lambda each: changed if next(counter) == position else each))


def off_by(share: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Make a loss of which autograd does not see a share."""

    def loss(answers: Tensor, labels: Tensor) -> Tensor:
        seen = functional.cross_entropy(answers, labels)
        return seen + share * float(seen)

    return loss


PROBE = Probe(
    question="Does autograd's gradient of the loss with respect to the network's output match a numerical one?",
    why="the optimizer follows a gradient that is not the loss's, and nothing raises",
    fix=Fix("look for .item(), float(), numpy and .data there, hooks on tensors, and backward methods"),
    detect=detect,
    thresholds={
        "wrong_loss": Threshold(
            0.01,
            "of the larger slope: central differences with a step of 1e-3 are off by its square, 1e-6, and a "
            "criterion that computes in float32 by about 1e-7 / 1e-3 = 1e-4; a factor by its value is off by far more",
            faulty=off_by(0.02),
            healthy=off_by(0.006),
        )
    },
    faulty=lambda answers, labels: functional.cross_entropy(answers, labels) * float(answers.square().mean()),
    healthy=lambda answers, labels: functional.cross_entropy(answers, labels) * answers.square().mean(),
)
