import ast
import math

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Example, Small, TwoEpochs, first_losses, own_kinds, tree_of, with_sgd
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe, Threshold

ANGLES = {"normalize", "cosine_similarity"}


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    _, calls, _ = first_losses(run)
    known = [call for call in calls if call.num_classes is not None]
    if len(known) != 1:
        raise CannotJudge("the loss is of no classification, or of several")
    [call], mean, chance = known, known[0].mean, math.log(known[0].num_classes)
    if mean > chance + limits.max_first_excess and not has_a_margin(run):
        yield Hit(
            f"the first loss is {mean:.4g}; who knows nothing has ln {call.num_classes} = {chance:.4g}. "
            f"Outputs reach {float(call.input.detach().abs().max()):.3g}",
            call.place,
        )


def has_a_margin(run: TwoEpochs) -> bool:
    """Whether answers are angles on purpose, with a margin and a scale, as ArcFace's are."""
    modules = [*run.pl_module.modules()]
    nodes = (node for kind in own_kinds(modules) for node in ast.walk(tree_of(kind)))
    calls = (ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call))
    # self.normalize may be that of pictures.
    are_angles = any(name.rpartition(".")[2] in ANGLES for name in calls if not name.startswith("self."))
    return are_angles or any(hasattr(each, "margin") for each in modules)


class OfAngles(Small):
    """Has cosines as answers, 64 times as large, with a margin of 0.5."""

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = functional.normalize(torch.relu(self.first(inputs)))
        return 64 * (hidden @ functional.normalize(self.head.weight).T - 0.5)


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
    also_healthy=(with_sgd(OfAngles),),
)
