"""Differences of answers and targets that a loss is made of, as of criteria that are written out."""

from typing import Any

from torch import Tensor

from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.graph import calls_behind, operation
from training_checklist.engines.tracer import Call, Listener

SUBTRACTS = {"sub", "rsub", "subtract"}
# Nodes of autograd's graph through which a loss is made of differences, and no weights come in.
REDUCES = ("Mean", "Sum", "Pow", "Abs", "Add", "Mul", "Div", "Sqrt", "Neg", "Square", "Maximum", "Log", "Stack", "View")
REDUCES += ("Unsqueeze", "Squeeze", "Where", "MaskedSelect", "Index", "Select", "Clamp", "LinalgVectorNorm", "Norm")


class Differences(Listener):
    """Keeps differences of a tensor with a gradient and one without, of one shape. They hold the graph.

    Attributes:
        of_losses: those that a loss is made of without any weight between.
    """

    def __init__(self) -> None:
        self.calls: dict[Any, CriterionCall] = {}  # by the node
        self.of_losses: list[CriterionCall] = []

    def after(self, call: Call) -> None:
        made, given = call.result, call.given
        if call.name.strip("_") not in SUBTRACTS or not isinstance(made, Tensor) or len(given) != 2:
            return
        learns = [each for each in given if each.requires_grad]
        if len(learns) == 1 and given[0].shape == given[1].shape and made.ndim and made.grad_fn is not None:
            [answers] = learns
            target = given[0] if given[1] is answers else given[1]
            if answers.is_floating_point() and target.is_floating_point():
                name = "the difference of answers and targets"
                self.calls[made.grad_fn] = CriterionCall(name, answers, target, {}, call.place, made)

    def before_backward(self, loss: Tensor) -> None:
        self.of_losses += calls_behind(loss, self.calls, lambda node: operation(node).startswith(REDUCES))
        self.calls.clear()
