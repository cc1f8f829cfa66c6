import torch
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from training_checklist.instruments import (
    Callback,
    Small,
    Step,
    call_step,
    is_overridden,
    isolate_rng,
    loss_in,
    of_the_project,
    shown,
    stand_in,
)
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

UNFREEZES = "on_train_epoch_start"


def detect(step: Step, limits: Limits) -> Hits:
    """Take the step once more with those weights not frozen: whose gradient is not 0 would count if it were not 0."""
    pl_module, trainer = step.pl_module, step.trainer
    # Of one row for all samples it is the mean of a prior, or a place to begin at, and multiplies nothing; a recurrent
    # network begins each of its layers at one, (layers, 1, features).
    shapes = [(n, p) for n, p in pl_module.named_parameters() if p.ndim > 1 and len(p) > 1]
    shapes = [(n, p) for n, p in shapes if p.ndim != 3 or p.shape[1] > 1]
    frozen = [n for n, p in shapes if not p.requires_grad and not p.any()]
    if not frozen:
        return
    hooks = [is_overridden(UNFREEZES, each, Callback) for each in trainer.callbacks]
    if is_overridden(UNFREEZES, pl_module) or any(hooks):
        raise CannotJudge("they may be unfrozen in a later epoch")
    if not pl_module.automatic_optimization:
        raise CannotJudge("a step that drives its optimizers itself is not taken again")
    step.replays()
    with of_the_project("training_step, run again,"), isolate_rng(), trainer.precision_plugin.forward_context():
        copy = stand_in(pl_module, trainer)
        weights = [copy.get_parameter(name).requires_grad_(True) for name in frozen]
        loss = loss_in(call_step(copy, "training_step", step.batch))
        gradients = torch.autograd.grad(loss, weights, allow_unused=True)
    idle = [name for name, each in zip(frozen, gradients, strict=True) if each is not None and each.any()]
    if idle:
        yield Hit(f"frozen at 0, where other values would change the loss: {shown(idle)}", Place(parameter=idle[0]))


class Adapted(Small):
    """Frozen, but for its head and an update of low rank, whose second factor begins at 0."""

    frozen = "first"

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 16, bias=False)
        nn.init.zeros_(self.up.weight)
        for name, parameter in self.named_parameters():
            parameter.requires_grad_(not name.startswith(self.frozen))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(torch.relu(self.first(inputs) + self.up(self.down(inputs))))

    def configure_optimizers(self) -> Optimizer:
        return SGD([p for p in self.parameters() if p.requires_grad], lr=0.01)


class Shifted(Small):
    """Answers around a mean that is kept beside its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(1, 8), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs - self.mean)


class Recurrent(Small):
    """Begins at a state of its own for each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.RNN(1, 16, 2, batch_first=True)
        self.state = nn.Parameter(torch.zeros(2, 1, 16), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.first(inputs[..., None], self.state.repeat(1, len(inputs), 1))[0][:, -1])


PROBE = Probe(
    question="Is no frozen weight exactly 0, so that what it multiplies never counts?",
    why="training is to make something of it, as of an adapter's second factor, and never gets to it; or nobody has "
    "filled it",
    fix=Fix("requires_grad_(True) for it, before configure_optimizers picks what is trained; or load its values"),
    detect=detect,
    faulty=type("Frozen", (Adapted,), {"frozen": ("first", "down", "up")}),
    healthy=Adapted,
    also_healthy=(Shifted, Recurrent),
)
