"""How the losses of a step change with the criteria that they are made of."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from training_checklist.engines.graph import nearest, operation
from training_checklist.finding import NOWHERE, Place
from training_checklist.lab.criterion_inputs import LAYERS
from training_checklist.lab.made_by import behind_views
from training_checklist.lab.step import Step, StepListener
from training_checklist.probe import CannotJudge


@dataclass(frozen=True)
class CriterionSlope:
    """How a loss changes as a criterion grows.

    Args:
        of_fixed: whether the answers come of layers that do not learn, of which an attack may be trained.
        of_answers: whether what it holds the answers against is to be learned, too.
    """

    name: str
    value: float
    slope: float
    place: Place = NOWHERE
    of_answers: bool = False
    of_fixed: bool = False


@dataclass
class LossSlopes:
    """A loss and the criteria that it is made of."""

    loss: float
    slopes: list[CriterionSlope] = field(default_factory=list)


class Losses(StepListener):
    """Takes the slopes of each loss before its backward."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.losses: list[LossSlopes] = []
        self.reason = "no loss is made of a single number that a criterion of PyTorch has returned"

    def before_backward(self, loss: Tensor) -> None:
        calls = [call for call in self.step.learned if call.result.ndim == 0]
        try:
            found = slopes(loss, [call.result for call in calls])
        except CannotJudge as reason:
            self.reason = str(reason)
            return
        known = [
            CriterionSlope(
                call.name,
                float(call.result.detach()),
                float(slope),
                call.place,
                of_answers=call.target.requires_grad,
                of_fixed=is_of_fixed(call.input),
            )
            for call, slope in zip(calls, found, strict=True)
            if slope is not None
        ]
        self.losses.append(LossSlopes(float(loss.detach()), known))

    def of_criteria(self) -> list[LossSlopes]:
        """Return the losses that are made of criteria.

        Raises:
            CannotJudge: none is.
        """
        known = [loss for loss in self.losses if loss.slopes]
        if not known:
            raise CannotJudge(self.reason)
        return known


def is_of_fixed(answers: Tensor) -> bool:
    """Whether the last layers that make answers have no weights that learn."""
    layers = [*nearest(answers, lambda node: operation(node) in LAYERS, lambda node: True)]
    learns = (hasattr(behind_views(below), "variable") for node in layers for below, _ in node.next_functions)
    return bool(layers) and not any(learns)


def slopes(loss: Tensor, tensors: list[Tensor]) -> list[Tensor | None]:
    """Return the gradient of a loss with respect to some tensors, each None where the loss does not depend on it.

    Raises:
        CannotJudge: a part of the graph is gone with an earlier backward.
    """
    if not tensors:
        return []
    try:
        return list(torch.autograd.grad(loss, tensors, retain_graph=True, allow_unused=True))
    except RuntimeError as error:
        raise CannotJudge(f"the loss has no gradient to look at: {str(error).splitlines()[0]}") from error
