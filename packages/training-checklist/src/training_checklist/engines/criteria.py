"""The calls of criteria in a step, whether a module or a function makes them: what they were given, and where."""

import inspect
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.tracer import Call, Listener
from training_checklist.finding import Place

# Of torch.nn.functional; the modules of torch.nn call them.
DISTANCES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
CRITERIA = {
    "cross_entropy",
    "nll_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    *DISTANCES,
    "kl_div",
}
CLASSIFIES = {"cross_entropy", "nll_loss"}  # (B, C, ...) against class indices (B, ...)


@dataclass
class CriterionCall:
    """One call of a criterion.

    Args:
        name: of the function in torch.nn.functional.
        options: further arguments, by name.
        result: the criterion's value, None where the call raised.
        outside: which labels the network has no output for, "" where it has one for all.
    """

    name: str
    input: Tensor
    target: Tensor
    options: dict[str, Any]
    place: Place
    result: Tensor | None = None
    outside: str = ""

    @property
    def detached(self) -> "CriterionCall":
        """The call without what its input was made of, which takes as much memory as a training step.

        Whether a gradient flows into a tensor stays known: it says what is learned, and what is only logged.
        """
        return replace(self, input=alone(self.input), result=alone(self.result))

    @property
    def num_classes(self) -> int | None:
        """Width of the network's output, where the criterion takes one class index a sample."""
        if self.name not in CLASSIFIES or self.target.is_floating_point():
            return None
        return self.input.shape[1 if self.input.ndim > 1 else 0]

    @property
    def ignored(self) -> int:
        """The label that stands for none."""
        return self.options.get("ignore_index", -100)

    @property
    def accuracy(self) -> float | None:
        """Share of right answers; None where the criterion is no classification's, or every label is ignored."""
        if self.num_classes is None or self.input.ndim < 2:
            return None
        counts = self.target != self.ignored
        right = (self.input.detach().argmax(1) == self.target)[counts]
        return float(right.float().mean()) if right.numel() else None

    @property
    def mean(self) -> float:
        """What it returned, as the mean over its labels."""
        result, reduction = self.result.detach().float(), self.options.get("reduction")
        if reduction == "none" and self.num_classes is not None:
            return float(result.sum() / (self.target != self.ignored).sum().clamp(min=1))
        return float(result.sum() / self.target.numel() if reduction == "sum" else result.mean())

    def look_at_labels(self) -> None:
        """Fill in `outside`."""
        classes = self.num_classes
        if classes is None:
            return
        wrong = ((self.target < 0) | (self.target >= classes)) & (self.target != self.ignored)
        if wrong.any():
            labels = sorted({int(label) for label in self.target[wrong]})
            named = ", ".join(map(str, labels[:5]))
            self.outside = f"label {named} in the batch, but the network has {classes} outputs (0..{classes - 1})"


def called_once(calls: list[CriterionCall]) -> list[CriterionCall]:
    """Return the calls of criteria that are called once among them: of others, which is which is not known."""
    names = [call.name for call in calls]
    return [call for call in calls if names.count(call.name) == 1]


def alone(value: Any) -> Any:
    return value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value


class Criteria(Listener):
    """Keeps the calls of criteria, but for those of nothing: a batch may have no boxes.

    They hold the graph: `calls.clear()` or `detach()` when a step is over.
    """

    def __init__(self) -> None:
        self.calls: list[CriterionCall] = []

    def before(self, call: Call) -> None:
        if call.name not in CRITERIA or not call.is_functional:
            return
        try:
            bound = inspect.signature(call.function).bind(*call.args, **call.kwargs)
        except TypeError:  # which the call itself will say
            return
        bound.apply_defaults()
        options = dict(bound.arguments)
        given = [options.pop("input"), options.pop("target")]
        if any(isinstance(each, Tensor) and not each.numel() for each in given):
            return
        found = CriterionCall(call.name, given[0], given[1], options, call.place)
        found.look_at_labels()
        self.calls.append(found)

    def after(self, call: Call) -> None:
        is_kept = call.name in CRITERIA and call.is_functional and self.calls and self.calls[-1].result is None
        if is_kept:
            self.calls[-1].result = call.result

    def detach(self) -> None:
        self.calls = [call.detached for call in self.calls]

    def leave_out(self, loss: Tensor) -> None:
        """Ignore the labels whose values are no part of a loss: masks are applied after `reduction="none"`, too."""
        for call in self.calls:
            asked = call.num_classes is not None and call.options.get("reduction") == "none"
            if asked and loss.requires_grad and call.result is not None and call.result.requires_grad:
                (weight,) = torch.autograd.grad(loss, call.result, retain_graph=True, allow_unused=True)
                if weight is not None:
                    call.target = call.target.masked_fill(weight == 0, call.ignored)
                    call.result = call.result.detach().masked_fill(weight == 0, 0)

    @property
    def classification(self) -> CriterionCall | None:
        """The one call that compares logits with class indices, or None where there is none or more than one."""
        found = [call for call in self.calls if call.num_classes is not None]
        return found[0] if len(found) == 1 else None
