from math import prod

from torch import Tensor

from training_checklist.instruments import Call, Shape, Small, Step, StepListener, by
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


class Rolls(StepListener):
    """Keeps the rolls of a whole batch that name no dimension."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.calls: list[tuple[Shape, Place]] = []

    def after(self, call: Call) -> None:
        if call.name == "roll" and call.argument("dims", 2) in (None, (), []):
            shape = tuple(call.given[0].shape)
            moved = call.argument("shifts", 1, 0)
            whole = isinstance(moved, int) and moved % prod(shape[1:]) == 0  # samples are moved, each as it is
            if len(shape) > 1 and shape[0] == self.step.size > 1 and not whole:
                self.calls.append((shape, call.place))


def detect(step: Step, limits: Limits) -> Hits:
    for shape, place in step.heard().calls:
        told = f"the end of each of its {step.size} samples goes into the next one"
        yield Hit(f"roll of {by(shape)} without dims: {told}", place)


class Rolled(Small):
    dims: int | None = None

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.roll(1, self.dims))


class EachRolled(Rolled):
    dims = 1


class BySamples(Small):
    """Holds the answers against those to the next sample."""

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return super().loss(answers, labels) + (answers - answers.roll(4)).square().mean()


PROBE = Probe(
    question="Does every roll of a batch say along which dimension?",
    why="without dims, torch.roll flattens the tensor first, so that what leaves one sample enters the next",
    fix=Fix("x.roll(shift, dims=-1)"),
    listener=Rolls,
    detect=detect,
    faulty=Rolled,
    healthy=EachRolled,
    also_healthy=(BySamples,),
)
