from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import Call, Small, Step, StepListener, calls_behind, is_linear, operation
from training_checklist.probe import WARNING, Fix, Probe

NORMS = {"LinalgVectorNorm", "Norm", "Sqrt"}
OF_SQUARES = {"Pow", "Mul", "Sum", "Add", "Stack", "Cat", "View"}  # below a square root


class Penalties(StepListener):
    """Keeps the lines that take norms, until the graph tells which of them are terms of the loss as they are."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.calls: dict[Any, Call] = {}

    def after(self, call: Call) -> None:
        result = call.result
        if isinstance(result, Tensor) and result.ndim == 0 and is_norm(result.grad_fn) and call.place.file:
            self.calls[result.grad_fn] = call

    def before_backward(self, loss: Tensor) -> None:
        for call in calls_behind(loss, self.calls, is_linear):
            self.keep(call, "the norm of a parameter is a term of the loss, and not its square")


def is_norm(node: Any) -> bool:
    """Whether a node takes the 2-norm of parameters as they are."""
    if node is None or operation(node) not in NORMS or getattr(node, "_saved_ord", getattr(node, "_saved_p", 2)) != 2:
        return False
    nodes = [below for below, _ in node.next_functions]
    for each in nodes:
        if each is None or not (
            hasattr(each, "variable") or (operation(node) == "Sqrt" and operation(each) in OF_SQUARES)
        ):
            return False
        nodes += [below for below, _ in each.next_functions]
    return True


class Penalised(Small):
    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return super().loss(answers, labels) + 0.01 * sum(map(self.penalty, self.parameters()))

    def penalty(self, weight: Tensor) -> Tensor:
        return torch.norm(weight, 2)


class Decayed(Penalised):
    def penalty(self, weight: Tensor) -> Tensor:
        return super().penalty(weight).square()


PROBE = Probe(
    question="Is an L2 penalty the square of the weights' norm, and not the norm itself?",
    why="the norm's gradient is as long for small weights as for large ones: it pulls whole tensors to 0, as a group "
    "lasso does, where L2 regularisation lets go of small weights (Goodfellow et al. 2016, 7.1.1)",
    severity=WARNING,
    fix=Fix("add weight.square().sum(), or leave it to the optimizer's weight_decay; silence this for a group lasso"),
    listener=Penalties,
    faulty=Penalised,
    healthy=Decayed,
)
