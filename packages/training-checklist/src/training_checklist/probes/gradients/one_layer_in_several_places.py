import ast
import re
from collections.abc import Callable

from torch import Tensor, nn

from training_checklist.instruments import (
    Example,
    FirstSteps,
    Small,
    is_own_class,
    several_steps,
    shown,
    tree_of,
    with_part,
)
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe

# [head for _ in range(3)], or a word that says it.
ONE_FOR_ALL = re.compile(
    r"\[\s*(?:self\.)?\w+\s+for\s+\w+\s+in\s+range\(|\b\w*(?:shar(?:e|ed|ing)|tied?|tying)\b", re.I
)


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    root = steps.pl_module
    for path, module in root.named_modules():
        names: dict[int, list[str]] = {}
        is_container = isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))  # else it may be an alias
        for name, child in module._modules.items() if is_container else ():
            if child is None or isinstance(child, nn.PReLU):  # an activation is no layer
                continue
            if any(p.requires_grad for p in child.parameters()) and not is_written(root, path):
                names.setdefault(id(child), []).append(f"{path}.{name}".lstrip("."))
        for same in (each for each in names.values() if len(each) > 1):
            yield Hit(
                f"{shown(same)} are one and the same {type(root.get_submodule(same[0])).__name__}",
                Place(module=shown(same)),
                f"there is one set of weights where {len(same)} are written: list multiplication copies no layer",
            )


def is_written(root: nn.Module, path: str) -> bool:
    """Whether a class around a container says in so many words that one layer stands in each of its places."""
    names = path.split(".")
    around = (type(root.get_submodule(".".join(names[:number]))) for number in range(len(names)))
    return any(ONE_FOR_ALL.search(ast.unparse(tree_of(each))) for each in around if is_own_class(each))


def layers(make: Callable[[], list[nn.Module]]) -> Example:
    return several_steps(with_part(lambda: nn.Sequential(*make()), lambda part, answers: part(answers)))


class OfOneHead(Small):
    def __init__(self) -> None:
        super().__init__()
        head, act = nn.Linear(4, 4), nn.PReLU()
        self.heads, self.acts = nn.ModuleList([head for _ in range(3)]), nn.Sequential(act, act)

    def forward(self, inputs: Tensor) -> Tensor:
        answers = super().forward(inputs)
        return sum((self.acts(head(answers)) for head in self.heads), answers)


class Stacked(OfOneHead):
    def __init__(self, share: bool = True) -> None:
        super().__init__()
        heads = nn.ModuleList([nn.Linear(4, 4)])
        heads.append(heads[-1] if share else nn.Linear(4, 4))
        self.stacks = nn.ModuleList([heads])


PROBE = Probe(
    question="Are the layers of each nn.Sequential or nn.ModuleList different objects, and not one repeated?",
    why="there is one set of weights where several are written",
    severity=WARNING,
    fix=Fix("build each one: nn.Sequential(*(make() for _ in range(n))); if one is meant, register it once"),
    detect=detect,
    faulty=layers(lambda: [nn.Linear(4, 4)] * 3),
    healthy=layers(lambda: [nn.Linear(4, 4) for _ in range(3)]),
    also_healthy=(several_steps(OfOneHead), several_steps(Stacked)),
)
