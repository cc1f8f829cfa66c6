from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    VIEWS,
    Call,
    Step,
    StepListener,
    calls_behind,
    compared_tensors,
    is_linear,
    operation,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

POWERS = {"pow", "square", "abs", "mul", "sqrt"}


class ErrorsCancel(StepListener):
    """Sees a loss that is a power of the mean error: noise that a step draws, say, is no target in the batch."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.powers: dict[Any, Call] = {}

    def after(self, call: Call) -> None:
        mean = call.given[0] if call.given else None
        if call.name.strip("_") not in POWERS or mean is None or mean.numel() != 1 or not is_mean_error(mean.grad_fn):
            return
        if isinstance(call.result, Tensor) and call.result.grad_fn is not None and call.place.file:
            self.powers[call.result.grad_fn] = call

    def before_backward(self, loss: Tensor) -> None:
        for power in calls_behind(loss, self.powers, only_scales):
            self.keep(power, "the errors of all samples are added up first, and cancel one another")


def only_scales(node: Any) -> bool:
    """Whether a node gives what it takes another form, or a factor without a gradient."""
    return operation(node) in VIEWS or (operation(node) in ("Mul", "Div") and is_linear(node))


def scaled(node: Any) -> Any:
    """Return the node that others only scale."""
    while node is not None and only_scales(node):
        node = next((each for each, _ in node.next_functions if each is not None), None)
    return node


def is_mean_error(node: Any) -> bool:
    """Whether a node is the mean of differences between something with a gradient and something without."""
    mean = scaled(node)
    if mean is None or operation(mean) not in ("Mean", "Sum"):
        return False
    errors = scaled(mean.next_functions[0][0])
    parts = [] if errors is None else [each for each, _ in errors.next_functions]
    return errors is not None and operation(errors) in ("Sub", "Rsub") and parts.count(None) == 1 and len(parts) == 2


def detect(step: Step, limits: Limits) -> Hits:
    cancelling = step.heard().found.values()
    yield from cancelling
    if cancelling:
        return
    for tensor in compared_tensors(step):
        if not tensor.belongs:
            yield Hit(
                f"the loss depends on {tensor.leaf}, and it is the same whichever sample an entry of it belongs to"
                f"{f': {tensor.meeting}' if tensor.meeting else ''}",
                tensor.where,
            )


PROBE = Probe(
    question="Does the loss change when the targets of the batch are given to other samples?",
    why="each output is compared with the targets of all samples, as where (B, 1) is broadcast against (B,): the best "
    "output is one and the same for all",
    may_be_wrong="a loss that compares distributions, as of a GAN, has no target for each sample",
    fix=Fix("give both one shape before they are compared; print the shape of the loss before its mean"),
    detect=detect,
    listener=ErrorsCancel,
    faulty=lambda answers, labels: (answers[:, None, 0] - labels).square().mean(),
    also_faulty=(lambda answers, labels: (answers - torch.randn_like(answers)).mean() ** 2,),
    healthy=lambda answers, labels: (answers[:, 0] - labels).square().mean(),
    also_healthy=(
        lambda answers, labels: (answers[:, 0] - labels - 50).abs().mean(),
        lambda answers, labels: (answers[:, 0] - labels).square().mean() ** 0.5,
    ),
)
