from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Call, StepListener, behind_views, by, operation
from training_checklist.probe import WARNING, Fix, Probe


class Normalised(StepListener):
    def after(self, call: Call) -> None:
        if call.name != "normalize" or call.argument("dim", 2, 1) not in (0, -2):
            return
        vectors = call.given[0]
        if vectors.ndim == 2 and len(vectors) == self.step.size and is_computed(vectors):
            self.keep(
                call, f"normalize is over dim 0 of {by(tuple(vectors.shape))}, which are the samples of the batch"
            )


def is_computed(tensor: Tensor) -> bool:
    """Whether a tensor has gone through a layer: a weight may have as many rows as a batch has samples."""
    node = behind_views(tensor.grad_fn)
    return node is not None and operation(node) != "AccumulateGrad"


def alike(dim: int):
    """Make a loss that draws the first samples of two halves together."""

    def loss(answers: Tensor, labels: Tensor) -> Tensor:
        vectors = functional.normalize(answers, dim=dim)
        return -(vectors[:8] * vectors[8:]).sum(1).mean() + functional.cross_entropy(answers, labels)

    return loss


PROBE = Probe(
    question="Is each vector of a sample normalised by its own norm, and not each number over the samples?",
    why="a sample's vector depends on which others are in its batch, and has no unit length: cosines are none",
    severity=WARNING,
    may_be_wrong="a loss that decorrelates numbers, as Barlow Twins, takes them over the samples",
    fix=Fix("functional.normalize(vectors, dim=-1)"),
    listener=Normalised,
    faulty=alike(0),
    healthy=alike(-1),
)
