from statistics import median

from torch import nn

from training_checklist.instruments import AlongDepth, FirstSteps, deep, fed
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold


def detect(steps: FirstSteps | AlongDepth, limits: Limits) -> Hits:
    depth = steps.along_depth()
    early, late = depth.ends()
    ratio = median(early) / max(late)
    if ratio > limits.exploding and depth.is_of_depth(ratio):
        yield Hit(*depth.told("explode", ratio))


PROBE = Probe(
    question="Are the gradients of the first layers of about the same size as those of the last (none exploding)?",
    why="every step throws the first layers about",
    fix=Fix("ReLU or GELU for sigmoid or tanh, residual connections, norms, initialisation by kaiming, xavier"),
    detect=detect,
    thresholds={
        "exploding": Threshold(
            1e4,
            "the first third's median, of the last third's largest: the greatest that was measured over 22 healthy "
            "networks and projects is 4.5, of one with several tasks; 8 ReLU layers of deviation 1 have 3e4",
            factor=100.0,
        )
    },
    faulty=fed(deep(9, nn.Identity, 1.0), gradient_clip_val=1e-3),
    healthy=fed(deep(6, nn.Identity, 1.0), gradient_clip_val=1e-3),
)
