import torch
from torch import Tensor, nn

from training_checklist.instruments import (
    Small,
    Step,
    StepListener,
    WithoutEffect,
    copied_parameters,
    of_modules,
    waits_its_turn,
    without_effect,
)
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


class Copies(StepListener):
    """Sees, before the step, which parameters are copies of others."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.names = copied_parameters(step.pl_module)


def detect(step: Step, limits: Limits) -> Hits:
    copies, automatic = step.heard().names, step.pl_module.automatic_optimization
    causes: dict[tuple[str, str | None], list[WithoutEffect]] = {}
    for module in without_effect(step):
        if waits_its_turn(step.pl_module, [module.path], module.called):
            continue
        if module.zero or (copies.keys() >= set(module.parameters) and not module.with_grad):
            continue
        if not module.called:
            why = "it is never called in training_step, or only its weights are used"
        elif not module.with_grad:
            why = "it is called under torch.no_grad()"
        else:
            why = "it is called, but what it returns never reaches the loss: unused, or cut by .detach() or .data"
        deliberate = (module.called and not module.with_grad) or not automatic
        causes.setdefault((why, module.leeway or (WARNING if deliberate else None)), []).append(module)
    for (why, severity), modules in causes.items():
        number = f"{sum(len(each.parameters) for each in modules)} parameters that the optimizer holds get no gradient"
        have = f"{modules[0].path} has" if len(modules) == 1 else f"{len(modules)} modules have"
        what = f"{have} no effect on the loss: {number}"
        yield Hit(what, of_modules(modules), why, severity=severity)


class Unused(Small):
    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Linear(8, 4)

    def forward(self, inputs: Tensor) -> Tensor:
        self.branch(inputs)
        return super().forward(inputs)


class Used(Unused):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + self.branch(inputs)


class Later(Unused):
    """Has a branch that joins after the first epoch."""

    def forward(self, inputs: Tensor) -> Tensor:
        answers = Small.forward(self, inputs)
        return answers + self.branch(inputs) if self.current_epoch >= 1 else answers


class Skipping(Small):
    """Skips each of eight layers in one step of two, at random."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(8))

    def forward(self, inputs: Tensor) -> Tensor:
        for layer in self.layers:
            if self.training and torch.rand(()) < 0.5:
                continue
            inputs = inputs + layer(inputs)
        return super().forward(inputs)


PROBE = Probe(
    question="Does every module whose parameters the optimizer holds get a gradient?",
    why="what it returns never reaches the loss",
    may_be_wrong="a step that trains one of several losses in turn leaves the parts of the others without a gradient",
    fix=Fix("use it, remove it, or freeze it with requires_grad_(False)", items=("gradients",)),
    listener=Copies,
    detect=detect,
    faulty=Unused,
    healthy=Used,
    also_healthy=(Later, Skipping),
)
