import math

from torch import Tensor

from training_checklist.instruments import Example, Small, TwoEpochs, first_losses, with_sgd
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    _, calls, _ = first_losses(run)
    known = [call for call in calls if call.num_classes is not None]
    if len(known) != 1:
        raise CannotJudge("the loss is of no classification, or of several")
    [call], mean, chance = known, known[0].mean, math.log(known[0].num_classes)
    if mean > chance + limits.max_first_excess:
        yield Hit(
            f"the first loss is {mean:.4g}; who knows nothing has ln {call.num_classes} = {chance:.4g}. "
            f"Outputs reach {float(call.input.detach().abs().max()):.3g}",
            call.place,
        )


def scaled(factor: float) -> Example:
    class Scaled(Small):
        def forward(self, inputs: Tensor) -> Tensor:
            return factor * super().forward(inputs)

    return with_sgd(Scaled)


PROBE = Probe(
    question="Is the first loss no higher than that of random guessing (ln C for C classes)?",
    why="the network is sure of wrong answers before training, which has to undo that first",
    detect=detect,
    may_be_wrong="a pretrained network may be sure of wrong answers before it is fine-tuned",
    fix=Fix("scale inputs to standard deviation 1, and the last layer's weights", items=("trace", "limit_batches")),
    thresholds={
        "max_first_excess": Threshold(
            8.0,
            "nats above ln C; a last layer initialised for a ReLU after it has 6, as measured, and still learns",
            factor=2.0,
        )
    },
    faulty=scaled(45.0),
    healthy=scaled(30.0),
)
