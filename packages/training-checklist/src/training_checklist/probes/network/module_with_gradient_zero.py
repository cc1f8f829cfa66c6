from torch import Tensor, nn

from training_checklist.instruments import Small, Step, of_modules, without_effect
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(step: Step, limits: Limits) -> Hits:
    modules = without_effect(step)
    if step.modules.zero_start:  # what lies before a layer of zeros gets its gradient from the second step on
        first = step.modules.zero_start[0]
        raise CannotJudge(f"{first} starts from zero, and what lies before it gets its gradient later")
    for module in modules:
        if module.zero:
            number = f"the gradients of its {len(module.parameters)} parameters are exactly 0"
            yield Hit(f"{module.path} has no effect on the loss: {number}", of_modules([module]))


class Zeroed(Small):
    factor = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + self.factor * self.branch(inputs)


class Added(Zeroed):
    factor = 0.1


PROBE = Probe(
    question="Does every module have gradients that are not all exactly 0?",
    why="it is multiplied by 0, or what follows it is dead (a ReLU at 0) or constant (softmax over one value)",
    may_be_wrong="a term of the loss whose weight is warmed up from 0 gives its branch no gradient at first",
    fix=Fix(
        "look in the table above for abs-max 0, or for abs-min and abs-max that are the same", items=("gradients",)
    ),
    detect=detect,
    faulty=Zeroed,
    healthy=Added,
)
