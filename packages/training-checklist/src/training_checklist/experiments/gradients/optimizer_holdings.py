"""Which parameters the optimizers hold, and which they should."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torchmetrics import Metric

from training_checklist.engines.own_code import is_own
from training_checklist.engines.parameter_names import gather
from training_checklist.engines.places import of_function
from training_checklist.evidence.gradients import Decays, FrozenModule, Holding, Inventory
from training_checklist.experiments.gradients.backward_graph import BackwardGraph


class Holdings:
    """The parameters of a model, without those inside of metrics.

    Attributes:
        trained: those that have required gradients at some time, by name.
        reached: ids of those that a loss depends on.
    """

    def __init__(self, root: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        self.root, self.optimizers = root, optimizers
        self.trained: dict[str, Tensor] = {}
        self.reached: set[int] = set()
        self._known: set[int] = set()

    def take(self) -> None:
        """Look at the model as it is now: its own hooks and its first forward pass may make parameters."""
        metrics = {id(p) for module in self.root.modules() if isinstance(module, Metric) for p in module.parameters()}
        own = {name: p for name, p in self.root.named_parameters() if id(p) not in metrics}
        still = {name: p for name, p in self.trained.items() if name in own}
        self.trained = {name: p for name, p in own.items() if p.requires_grad or still.get(name) is p}
        self._known |= metrics | {id(p) for p in own.values()}

    @property
    def frozen(self) -> list[str]:
        return [name for name, _ in self.root.named_parameters() if name not in self.trained]

    @property
    def held(self) -> list[set[int]]:
        return [{id(p) for group in o.param_groups for p in group["params"]} for o in self.optimizers]

    def holders(self, name: str) -> int:
        return sum(id(self.trained[name]) in held for held in self.held)

    def inventory(self, graph: BackwardGraph) -> Inventory:
        held = self.held
        holders = {name: sum(id(p) in each for each in held) for name, p in self.trained.items()}
        twice = [name for name, count in holders.items() if count > 1]
        none = [name for name, p in self.trained.items() if not holders[name] and id(p) in self.reached]
        holdings = [Holding(path, names, holders[names[0]]) for path, names in gather(twice, self.trained)]
        holdings += [Holding(path, names, 0) for path, names in gather(none, self.trained)]
        params = [p for o in self.optimizers for group in o.param_groups for p in group["params"]]
        strangers = [tuple(p.shape) for p in params if id(p) not in self._known and not is_lazy(p)]
        place = of_function(type(self.root).configure_optimizers)
        return Inventory(holdings, strangers, list(self._unregistered(graph, set().union(*held))), place)

    def frozen_modules(self) -> Iterator[FrozenModule]:
        """Yield the modules whose own parameters are frozen and held, all of them or some."""
        held = set().union(*self.held)
        place = of_function(type(self.root).configure_optimizers)
        for path, module in self.root.named_modules():
            own = {f"{path}.{name}".lstrip("."): p for name, p in module.named_parameters(recurse=False)}
            if own and self.trained.keys().isdisjoint(own) and any(id(p) in held for p in own.values()):
                known = [name for name, p in own.items() if id(p) in held]
                yield FrozenModule(path, known, [name for name in own if name not in known], place)

    def decays(self) -> Iterator[Decays]:
        """Yield the kinds of parameters that a project exempts from decay, in groups of vectors alone."""
        kinds = {id(p): (name, kind) for name, p in self.trained.items() if (kind := kind_of(self.root, name, p))}
        for optimizer in self.optimizers:
            exempt: dict[str, list[str]] = {}
            decayed: dict[str, list[tuple[str, float]]] = {}
            for group in optimizer.param_groups:
                rate = float(group.get("weight_decay") or 0.0)
                for name, kind in (kinds[id(p)] for p in group["params"] if id(p) in kinds):
                    if rate:
                        decayed.setdefault(kind, []).append((name, rate))
                    elif all(p.ndim < 2 for p in group["params"]):
                        exempt.setdefault(kind, []).append(name)
            for kind, names in exempt.items():
                others = decayed.get(kind, [])
                rate = max((rate for _, rate in others), default=0.0)
                place = of_function(type(self.root).configure_optimizers)
                yield Decays(kind, names, [name for name, _ in others], rate, place)

    def _unregistered(self, graph: BackwardGraph, held: set[int]) -> Iterator[Any]:
        leaves = {node.variable: place for node, place in graph.places.items() if hasattr(node, "variable")}
        known = self._known | held
        unknown = {p: place for p, place in leaves.items() if isinstance(p, nn.Parameter) and id(p) not in known}
        for place in dict.fromkeys(unknown.values()):
            yield [tuple(p.shape) for p, where in unknown.items() if where == place], place


def kind_of(root: nn.Module, name: str, parameter: Tensor) -> str:
    """Return "biases", "weights of norms", or "" of what is neither."""
    owner, _, last = name.rpartition(".")
    if parameter.ndim > 1:
        return ""
    if last.endswith("bias"):
        return "biases"
    return "weights of norms" if "norm" in type(root.get_submodule(owner)).__name__.lower() else ""


def one_in_several_places(root: nn.Module) -> Iterator[tuple[list[str], str]]:
    """Yield names and type of each layer that one container holds several times: [layer] * 3 are no three layers."""
    for path, module in root.named_modules():
        names: dict[int, list[str]] = {}
        is_container = isinstance(module, (nn.Sequential, nn.ModuleList, nn.ModuleDict))  # else it may be an alias
        for name, child in module._modules.items() if is_container else ():
            if child is not None and any(p.requires_grad for p in child.parameters()):
                names.setdefault(id(child), []).append(f"{path}.{name}".lstrip("."))
        for same in names.values():
            if len(same) > 1:
                yield same, type(root.get_submodule(same[0])).__name__


def is_of_library(root: nn.Module, name: str) -> bool:
    """Whether a package, and not the project, wrote the module that has a parameter as a part of it."""
    path = name
    while path:
        path = path.rpartition(".")[0]
        owner = type(root.get_submodule(path))
        if owner.__module__.partition(".")[0] not in ("torch", "torchvision"):
            file = getattr(sys.modules.get(owner.__module__), "__file__", None)
            return file is not None and not is_own(file)
    return False
