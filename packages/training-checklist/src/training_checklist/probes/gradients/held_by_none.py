import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from training_checklist.instruments import FirstSteps, Small, counted, gather, several_steps, shown
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe

MOST_TOLD = 3  # modules, each by itself


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = steps.after_first
    held = [p for optimizer in known.optimizers for group in optimizer.param_groups for p in group["params"]]
    shapes = [tuple(p.shape) for p in held if id(p) not in known.known and not is_lazy(p)]
    strangers = f"; what they hold instead is no parameter of the model: {shown(shapes)}" if shapes else ""
    none = [name for name, p in known.trained.items() if not known.holders(name) and id(p) in known.reached]
    groups = [*gather(none, known.trained)]
    if len(groups) > MOST_TOLD:  # of one cause, a list that is picked by a wrong condition
        groups = [(f"{len(groups)} modules", none)]
    for path, names in groups:
        them = "it" if len(names) == 1 else "them"
        yield Hit(
            f"no optimizer holds {counted(names)} of {path}, although the loss depends on {them}{strangers}",
            steps.configured.beside(parameter=shown(names)),
            fix=Fix(
                f"give the optimizer self.parameters(), make layers before configure_optimizers runs, "
                f"or freeze {them if len(names) > 1 else path} with requires_grad_(False) if that is meant"
            ),
        )


class Partly(Small):
    def configure_optimizers(self) -> Optimizer:
        return torch.optim.SGD(self.head.parameters(), lr=0.01)


class WithTeacher(Small):
    """A network whose teacher is never asked for a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.teacher = nn.Linear(8, 4)

    def configure_optimizers(self) -> Optimizer:
        return torch.optim.SGD([*self.first.parameters(), *self.head.parameters()], lr=0.01)


PROBE = Probe(
    question="Is every parameter that gets a gradient in a parameter group of an optimizer?",
    why="they get gradients and never change: what they compute stays as random as it began",
    fix=Fix("give the optimizer self.parameters()"),
    detect=detect,
    faulty=several_steps(Partly),
    healthy=several_steps(WithTeacher),
)
