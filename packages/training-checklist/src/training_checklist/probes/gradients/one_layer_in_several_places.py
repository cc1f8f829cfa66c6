from collections.abc import Callable

from torch import nn

from training_checklist.instruments import Example, FirstSteps, several_steps, shown, with_part
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    root = steps.pl_module
    for path, module in root.named_modules():
        names: dict[int, list[str]] = {}
        is_container = isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))  # else it may be an alias
        for name, child in module._modules.items() if is_container else ():
            if child is not None and any(p.requires_grad for p in child.parameters()):
                names.setdefault(id(child), []).append(f"{path}.{name}".lstrip("."))
        for same in (each for each in names.values() if len(each) > 1):
            yield Hit(
                f"{shown(same)} are one and the same {type(root.get_submodule(same[0])).__name__}",
                Place(module=shown(same)),
                f"there is one set of weights where {len(same)} are written: list multiplication copies no layer",
            )


def layers(make: Callable[[], list[nn.Module]]) -> Example:
    return several_steps(with_part(lambda: nn.Sequential(*make()), lambda part, answers: part(answers)))


PROBE = Probe(
    question="Are the layers of each nn.Sequential or nn.ModuleList different objects, and not one repeated?",
    why="there is one set of weights where several are written",
    severity=WARNING,
    fix=Fix("build each one: nn.Sequential(*(make() for _ in range(n))); if one is meant, register it once"),
    detect=detect,
    faulty=layers(lambda: [nn.Linear(4, 4)] * 3),
    healthy=layers(lambda: [nn.Linear(4, 4) for _ in range(3)]),
)
