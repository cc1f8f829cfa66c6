from torch import Tensor, nn

from training_checklist.instruments import Call, Small, Step, StepListener, is_ramped, of_modules, without_effect
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


class Floors(StepListener):
    """Notes whether a term is held at a least value, as a KL divergence is at free bits: a number, or more than 0."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.reached = False

    def after(self, call: Call) -> None:
        least = call.argument("min", 1) if call.name in ("clamp", "clamp_min") and call.given else None
        if isinstance(least, (int, float)) and call.given[0].requires_grad:
            self.reached |= (least > 0 or not call.given[0].ndim) and bool((call.given[0] < least).all())


def detect(step: Step, limits: Limits) -> Hits:
    modules = without_effect(step)
    if step.modules.zero_start:  # what lies before a layer of zeros gets its gradient from the second step on
        first = step.modules.zero_start[0]
        raise CannotJudge(f"{first} starts from zero, and what lies before it gets its gradient later")
    zero = [module for module in modules if module.zero]
    if zero and step.heard().reached:
        raise CannotJudge("a term of the loss lies at its floor (clamp), and has no gradient until it rises")
    if zero and is_ramped(step.pl_module, step.trainer.callbacks):
        raise CannotJudge("a factor of a term depends on the epoch or step, and may be another one later")
    for module in zero:
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
    listener=Floors,
    faulty=Zeroed,
    healthy=Added,
)
