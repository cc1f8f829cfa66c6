import torch
from torch import Tensor

from training_checklist.instruments import SAMPLES, Small, Step, batch_size, first_of, look
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    some = first_of(step.batch, SAMPLES)
    if batch_size(some) != SAMPLES or batch_size(step.batch) != step.size:
        raise CannotJudge(f"the batch has no {SAMPLES} samples that can be put into another order")
    seen = look(step).moved(some)  # in eval mode: dropout draws for places
    if seen is None:
        raise CannotJudge("the loss is random, or no number")
    loss, moved = seen
    # Of pairs that follow one another, moving by two places keeps together what belongs together.
    if all(each != loss for each in moved):
        others = ", ".join(f"{each:.6g}" for each in moved)
        yield Hit(
            f"the loss of {SAMPLES} samples is {loss:.6g}, and {others} where the same samples stand at "
            f"other places of the batch",
            step.place,
        )


class ByPlace(Small):
    """Adds a table of places over the wrong dimension."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs + torch.arange(len(inputs))[:, None])


class ByFeature(Small):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs + torch.arange(inputs.shape[1]))


PROBE = Probe(
    question="Does the loss stay the same when the samples of a batch are put into another order?",
    why="what is learnt of a sample depends on the samples that were drawn before it: something is indexed by the "
    "dimension of the batch, such as positions in time",
    severity=WARNING,
    fix=Fix("print the shapes: batch_first, and x.size(1) or x.size(0) for the length of a sequence"),
    detect=detect,
    faulty=ByPlace,
    healthy=ByFeature,
)
