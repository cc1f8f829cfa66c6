from typing import Any

from torch import Tensor, nn

from training_checklist.instruments import LightningModule, Small, Step, StepListener, without_effect
from training_checklist.probe import FAILED, WARNING, Fix, Hit, Hits, Limits, Probe


class Copies(StepListener):
    """Sees, before the step, which modules are copies of others."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.paths = copies_in(step.pl_module)


def copies_in(pl_module: LightningModule) -> set[str]:
    """Return the modules of which another one has the very weights: a baseline of earlier weights, a target network."""
    values = {id(p): (tuple(p.shape), float(p.detach().double().sum()), constant(p)) for p in pl_module.parameters()}
    alike: dict[tuple[Any, ...], list[str]] = {}
    for path, module in pl_module.named_modules():
        known = tuple(values[id(parameter)] for parameter in module.parameters())
        # A layer begins with ones and zeros as others do.
        if path and not all(is_constant for _, _, is_constant in known):
            alike.setdefault((type(module), known), []).append(path)
    return {path for paths in alike.values() if len(paths) > 1 for path in paths}


def constant(parameter: Tensor) -> bool:
    return parameter.numel() == 0 or bool((parameter.detach() == parameter.detach().flatten()[0]).all())


def detect(step: Step, limits: Limits) -> Hits:
    copies, automatic = step.heard().paths, step.pl_module.automatic_optimization
    for module in without_effect(step):
        if module.zero or (module.path in copies and not module.with_grad):
            continue
        if not module.called:
            why = "it is never called in training_step, or only its weights are used"
        elif not module.with_grad:
            why = "it is called under torch.no_grad()"
        else:
            why = "it is called, but what it returns never reaches the loss: unused, or cut by .detach() or .data"
        deliberate = module.chosen or (module.called and not module.with_grad) or not automatic
        number = f"{len(module.parameters)} parameters that the optimizer holds get no gradient"
        what = f"{module.path} has no effect on the loss: {number}"
        yield Hit(what, module.place, why, severity=WARNING if deliberate else None)


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


PROBE = Probe(
    id="network/module-without-gradient",
    item="trace",
    question="Does every module whose parameters the optimizer holds get a gradient?",
    why="what it returns never reaches the loss",
    severity=FAILED,
    fix=Fix("use it, remove it, or freeze it with requires_grad_(False)", items=("gradients",)),
    listener=Copies,
    detect=detect,
    faulty=Unused,
    healthy=Used,
)
