from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from training_checklist.instruments import Call, Shape, Small, Step, StepListener, by, made_by_weights, smaller
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


@dataclass
class SoftmaxCall:
    shape: Shape
    place: Place
    of_pairs: bool  # whether its input is square and may compare all samples with all


class Softmaxes(StepListener):
    """Keeps the softmaxes over a first dimension that is as long as the batch."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.calls: list[SoftmaxCall] = []

    def after(self, call: Call) -> None:
        name = call.name.strip("_").removeprefix("special_")
        if name not in ("softmax", "log_softmax") or not torch.is_grad_enabled() or not call.given:
            return
        tensor, dim = call.given[0], call.argument("dim", 1)
        if dim is None:  # as torch.nn.functional has it, with a warning
            dim = 0 if tensor.ndim in (0, 1, 3) else 1
        shape = tuple(tensor.shape)
        # Where a sample has one number alone, nobody means its classes: the samples of a batch are weighed.
        if isinstance(dim, int) and dim % len(shape or [1]) == 0 and shape[:1] == (self.step.size,) != (prod(shape),):
            of_pairs = len(shape) == 2 and shape[0] == shape[1] and not made_by_weights(tensor)
            self.calls.append(SoftmaxCall(shape, call.place, of_pairs))


def detect(step: Step, limits: Limits) -> Hits:
    calls = [call for call in step.heard().calls if not call.of_pairs]
    if not calls:
        return
    try:
        follow = {(call.place.file, call.place.line) for call in smaller(step).heard(Softmaxes).calls}
    except CannotJudge:
        # As many features or steps in time as samples is rare where there are rows of features, (B, C).
        follow = {(call.place.file, call.place.line) for call in calls if len(call.shape) == 2}
    for call in calls:
        if (call.place.file, call.place.line) in follow:
            yield Hit(f"softmax over dim 0 of {by(call.shape)}: over the {step.size} samples", call.place)


class OverSamples(Small):
    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs))
        return self.head(hidden * hidden.softmax(0))


class OverFeatures(OverSamples):
    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs))
        return self.head(hidden * hidden.T.softmax(0).T)


def weighted(answers: Tensor, labels: Tensor) -> Tensor:
    losses = torch.nn.functional.cross_entropy(answers, labels, reduction="none")[:, None]
    return (losses.softmax(0) * losses).sum()


PROBE = Probe(
    question="Does every softmax run over the classes or features of a sample, and not over the samples of the batch?",
    why="each sample's result depends on the samples that happen to be in its batch",
    fix=Fix("give it dim=1 (or -1)"),
    listener=Softmaxes,
    detect=detect,
    faulty=OverSamples,
    healthy=OverFeatures,
    also_healthy=(weighted,),
)
