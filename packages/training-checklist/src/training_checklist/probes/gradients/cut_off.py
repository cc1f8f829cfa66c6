import torch
from torch import Tensor

from training_checklist.instruments import (
    FirstSteps,
    Small,
    missing_in_part,
    owners,
    several_steps,
    shown,
    waits_its_turn,
)
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    for group in missing_in_part(steps):
        cause, of = group.cause, len(steps.holdings.trained)
        if cause.how == "unused" or waits_its_turn(steps.pl_module, owners(group.names), called=True):
            continue
        does = "runs under torch.no_grad()" if cause.how == "no_grad" else "detaches it"
        between = f", {cause.between}" if cause.between else ""
        yield Hit(
            f"{len(group.names)} of {of} parameters get no gradient: {group.path}; {cause.operation} {does}{between}",
            cause.place.beside(parameter=shown(group.names)),
            fix=Fix(f"take the operation out; if it is meant, freeze {group.path} with requires_grad_(False)"),
            severity=group.leeway,
        )


class Cut(Small):
    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.relu(self.first(inputs)).detach())


class Frozen(Cut):
    def __init__(self) -> None:
        super().__init__()
        self.first.requires_grad_(False)


PROBE = Probe(
    question="Does the graph lead from the loss to every parameter, with nothing detached on the way?",
    why="they stay as they are, whatever the loss does",
    may_be_wrong="a teacher, a target network or a frozen backbone is cut off on purpose; then requires_grad_(False) "
    "says so",
    fix=Fix("take the operation out"),
    detect=detect,
    faulty=several_steps(Cut),
    healthy=several_steps(Frozen),
)
