from torch import nn

from training_checklist.instruments import AlongDepth, FirstSteps, deep, fed
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold


def detect(steps: FirstSteps | AlongDepth, limits: Limits) -> Hits:
    depth = steps.along_depth()
    early, late = depth.ends()
    ratio = max(early) / max(late)
    if ratio < limits.vanishing and depth.is_of_depth(ratio):
        yield Hit(*depth.told("vanish", ratio))


PROBE = Probe(
    question="Are the gradients of the first layers of about the same size as those of the last (none vanishing)?",
    why="the first layers hardly learn",
    fix=Fix("ReLU or GELU for sigmoid or tanh, residual connections, norms, initialisation by kaiming, xavier"),
    detect=detect,
    thresholds={
        "vanishing": Threshold(
            1e-5,
            "the first third's largest, of the last third's largest: the least that was measured over 22 healthy "
            "networks and projects is 1.7e-5, of 16 plain ReLU layers; 8 sigmoid layers have 1.1e-6",
            factor=100.0,
        )
    },
    faulty=fed(deep(10, nn.Sigmoid)),
    healthy=fed(deep(7, nn.Sigmoid)),
)
