import torch
from torch.optim import Optimizer

from training_checklist.instruments import FirstSteps, Small, several_steps, shown
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    held = set().union(*steps.after_first.held)
    for path, module in steps.pl_module.named_modules():
        own = {f"{path}.{name}".lstrip("."): p for name, p in module.named_parameters(recurse=False)}
        known = [name for name, p in own.items() if id(p) in held]
        left = [name for name in own if name not in known]
        if known and left and steps.after_first.trained.keys().isdisjoint(own):
            yield Hit(
                f"an optimizer holds {shown(known)}, frozen for now, and none holds {shown(left)}",
                steps.configured.beside(module=path, parameter=shown(left)),
            )


class Later(Small):
    left = "first.weight"

    def configure_optimizers(self) -> Optimizer:
        self.first.requires_grad_(False)
        return torch.optim.SGD([p for name, p in self.named_parameters() if name != self.left], lr=0.01)


PROBE = Probe(
    question="Does the optimizer hold either all or none of the parameters of a frozen module?",
    why="once the module is unfrozen, the parameters that no optimizer holds stay as they are",
    severity=WARNING,
    fix=Fix(
        "look at how configure_optimizers sorts parameters into groups: each belongs to one, vector, matrix or kernel"
    ),
    detect=detect,
    faulty=several_steps(Later),
    healthy=several_steps(type("Whole", (Later,), {"left": ""})),
)
