import re

from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import LayerModes, TwoEpochs, Validated, leaves_modes_alone
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe

WRITTEN = re.compile(r"dropout\w*\(.*\btraining\s*=\s*True\b")


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    modes = run.heard()
    leaves_modes_alone(run.pl_module)
    if modes.draws_answers and modes.dropout_lines:
        raise CannotJudge("each validation step draws several answers to one input, as Monte Carlo dropout does")
    for place in modes.dropout_lines:
        if not WRITTEN.search(place.source):  # what is forgotten is the argument, which is True then
            yield Hit("dropout is at work during validation", place)


class Dropping(Validated):
    always = True

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.dropout(super().forward(inputs), 0.5, training=self.always or self.training)


class Prenet(Dropping):
    """Draws on purpose, as the decoder of Tacotron 2 does."""

    def forward(self, inputs: Tensor) -> Tensor:
        return functional.dropout(Validated.forward(self, inputs), 0.5, training=True)


PROBE = Probe(
    question="Is dropout off during validation?",
    why="each pass over the same data gives another result, worse than what the network can do",
    listener=LayerModes,
    detect=detect,
    may_be_wrong="a network whose answers are to be drawn has its dropout at work on purpose",
    fix=Fix("F.dropout(x, p, training=self.training), nn.Dropout, or no train() in validation"),
    faulty=Dropping,
    healthy=type("InTraining", (Dropping,), {"always": False}),
    also_healthy=(Prenet,),
)
