from torch import nn

from training_checklist.instruments import Call, Skews, Step, StepListener, to_transpose
from training_checklist.probe import WARNING, Fix, Probe


class Reshapes(StepListener):
    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.skews = Skews()

    def after(self, call: Call) -> None:
        self.skews.see(call)
        reshape = to_transpose(call)
        if reshape is not None and not self.skews.moves_rows(call):
            self.keep(call, reshape.told)


PROBE = Probe(
    question="Are axes exchanged by transpose() or permute(), and not by reshape() or view()?",
    why="a reshape leaves the numbers in their order: each row of the result holds parts of several rows, or samples",
    severity=WARNING,
    fix=Fix("transpose(1, 2), permute or movedim moves the numbers with their axes"),
    listener=Reshapes,
    faulty=lambda answers, labels: nn.functional.cross_entropy(answers.reshape(4, 16).transpose(0, 1), labels),
    healthy=lambda answers, labels: nn.functional.cross_entropy(answers.transpose(0, 1).transpose(0, 1), labels),
)
