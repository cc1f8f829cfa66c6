from statistics import median

from torch import Tensor, nn

from training_checklist.instruments import AlongDepth, FirstSteps, deep, several_steps
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold


def detect(steps: FirstSteps | AlongDepth, limits: Limits) -> Hits:
    depth = steps.along_depth()
    early, late = depth.ends()
    least, most = max(early) / max(late), median(early) / max(late)
    if least < limits.vanishing and depth.is_of_depth(least):
        yield Hit(*depth.told("vanish", least), "the first layers hardly learn")
    if most > limits.exploding and depth.is_of_depth(most):
        yield Hit(*depth.told("explode", most), "every step throws the first layers about")


class Stepped(deep(6, nn.Identity)):
    """Changes the size of gradients in one place only."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.deep[6:](1e6 * self.deep[:6](self.first(inputs))))


EXPLODING = several_steps(deep(9, nn.Identity, 1.0), gradient_clip_val=1e-3)
NOT_EXPLODING = several_steps(deep(6, nn.Identity, 1.0), gradient_clip_val=1e-3)

PROBE = Probe(
    question="Are the gradients of the first layers of about the same size as those of the last (none vanishing or "
    "exploding)?",
    why="the first layers do not learn",
    fix=Fix("ReLU or GELU for sigmoid or tanh, residual connections, norms, initialisation by kaiming, xavier"),
    aliases=("gradients/exploding", "gradients/vanishing"),
    detect=detect,
    thresholds={
        "vanishing": Threshold(
            1e-5,
            "the first third's largest, of the last third's largest: the least that was measured over 22 healthy "
            "networks and projects is 1.7e-5, of 16 plain ReLU layers; 8 sigmoid layers have 1.1e-6",
            factor=100.0,
        ),
        "exploding": Threshold(
            1e4,
            "the first third's median, of the last third's largest: the greatest that was measured over 22 healthy "
            "networks and projects is 4.5, of one with several tasks; 8 ReLU layers of deviation 1 have 3e4",
            factor=100.0,
            faulty=EXPLODING,
            healthy=NOT_EXPLODING,
        ),
    },
    faulty=several_steps(deep(10, nn.Sigmoid)),
    healthy=several_steps(deep(7, nn.Sigmoid)),
    also_faulty=(EXPLODING,),
    also_healthy=(NOT_EXPLODING, several_steps(Stepped, gradient_clip_val=1e-3)),
)
