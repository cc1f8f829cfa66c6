"""Which parameters the optimizers hold, and which they should."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torchmetrics import Metric

from training_checklist.experiments.gradients.backward_graph import BackwardGraph
from training_checklist.experiments.trace.trace import groups

Finding = tuple[str, str, str, str]  # what, where, why, fix


class Holdings:
    """The parameters of a model, without those inside of metrics.

    Attributes:
        trained: those that require gradients, by name.
        frozen: names of the others.
    """

    def __init__(self, root: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        inside = {id(p) for module in root.modules() if isinstance(module, Metric) for p in module.parameters()}
        parameters = {name: p for name, p in root.named_parameters() if id(p) not in inside}
        self.root = type(root).__name__
        self.trained = {name: p for name, p in parameters.items() if p.requires_grad}
        self.frozen = [name for name in parameters if name not in self.trained]
        self._known = inside | {id(p) for p in parameters.values()}
        self.held = [{id(p) for group in o.param_groups for p in group["params"]} for o in optimizers]

    def holders(self, name: str) -> int:
        return sum(id(self.trained[name]) in held for held in self.held)

    def held_twice(self) -> Iterator[Finding]:
        for path, names in gather([name for name in self.trained if self.holders(name) > 1], self.trained):
            yield (
                f"{self.holders(names[0])} optimizers hold {counted(names)} of {path}",
                f"configure_optimizers: {shown(names)}",
                "each of them moves the weights by its own state, against the other",
                "give every parameter to one optimizer only",
            )

    def held_by_none(self) -> Iterator[Finding]:
        """Tell of parameters that have a gradient, so that the loss depends on them, and stay as they are."""
        names = [name for name, p in self.trained.items() if p.grad is not None and not self.holders(name)]
        for path, inside in gather(names, self.trained):
            them = "it" if len(inside) == 1 else "them"
            yield (
                f"no optimizer holds {counted(inside)} of {path}, although the loss depends on {them}",
                f"configure_optimizers: {shown(inside)}",
                "they get gradients and never change: what they compute stays as random as it began",
                f"give the optimizer self.parameters(), or freeze {path} with requires_grad_(False) if that is meant",
            )

    def unregistered(self, graph: BackwardGraph) -> Iterator[Finding]:
        """Tell of parameters that the loss depends on and the model does not know."""
        known = self._known.union(*self.held)
        leaves = {node.variable: place for node, place in graph.nodes.items() if hasattr(node, "variable")}
        unknown = {p: place for p, place in leaves.items() if isinstance(p, nn.Parameter) and id(p) not in known}
        for place in dict.fromkeys(unknown.values()):
            yield (
                f"parameters that belong to no module of {self.root} are trained through: "
                + shown([tuple(p.shape) for p, where in unknown.items() if where == place]),
                place,
                "no optimizer holds them, no checkpoint has them, and they stay on the CPU",
                "assign their module to an attribute, or keep it in nn.ModuleList or nn.ModuleDict",
            )


def one_in_several_places(root: nn.Module) -> Iterator[Finding]:
    """Tell of layers that one container holds several times: [layer] * 3 are no three layers."""
    for path, module in root.named_modules():
        names: dict[int, list[str]] = {}
        is_container = isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))  # else it may be an alias
        for name, child in module._modules.items() if is_container else ():
            if child is not None and any(p.requires_grad for p in child.parameters()):
                names.setdefault(id(child), []).append(f"{path}.{name}".lstrip("."))
        for same in names.values():
            if len(same) > 1:
                yield (
                    f"{shown(same)} are one and the same {type(root.get_submodule(same[0])).__name__}",
                    shown(same),
                    f"there is one set of weights where {len(same)} are written: list multiplication copies no layer",
                    "build each one: nn.Sequential(*(make() for _ in range(n))); if one is meant, register it once",
                )


def gather(names: Iterable[str], trained: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Gather parameters under modules of which all are among them; single ones stand for themselves."""
    names = list(names)
    whole = groups(names, list(trained))
    inside = {name for _, members in whole for name in members}
    return whole + [(name, [name]) for name in names if name not in inside]


def counted(names: list[str]) -> str:
    return "the parameter" if len(names) == 1 else f"the {len(names)} parameters"


def shown(names: list[Any]) -> str:
    return ", ".join(map(str, names[:4])) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
