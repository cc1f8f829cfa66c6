from torch import Tensor, nn

from training_checklist.instruments import Example, Small, TwoEpochs, effect_of_labels, with_sgd
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    if effect_of_labels(run) < limits.rounding:
        what = "exchanging the labels of the very samples that it is trained on does not change the loss"
        yield Hit(what, Place(note="the network"))


def weakly(factor: float) -> Example:
    class Weakly(Small):
        def forward(self, inputs: Tensor) -> Tensor:
            return super().forward(factor * inputs)

    return with_sgd(Weakly)


class FromZeros(Small):
    """Begins with zeros, and its loss has a part that no weight changes, so that it falls by little."""

    def __init__(self) -> None:
        super().__init__()
        nn.init.zeros_(self.head.weight)

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return 100 + super().loss(answers, labels)


PROBE = Probe(
    question="Do the network's outputs depend on its inputs?",
    why="its outputs do not depend on its inputs: a network fed zeros learns as well",
    symptom=True,
    detect=detect,
    fix=Fix("the first looks at the network, the second at the inputs", items=("trace", "limit_batches")),
    thresholds={
        "rounding": Threshold(1e-5, "share of the loss; float32 keeps 7 digits, of which sums lose some", factor=6.0)
    },
    faulty=weakly(3e-5),
    healthy=weakly(1e-4),
    also_healthy=(with_sgd(FromZeros),),
)
