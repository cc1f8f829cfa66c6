"""Which parameters the optimizers hold, and which they should."""

import sys
from collections.abc import Sequence

from torch import Tensor, nn
from torch.optim import Optimizer
from torchmetrics import Metric

from training_checklist.engines.own_code import is_own


class Holdings:
    """The parameters of a model, without those inside of metrics.

    Attributes:
        trained: those that have required gradients at some time, by name.
        reached: ids of those that a loss depends on.
        known: ids of all parameters that the model had at some time, and of its metrics'.
    """

    def __init__(self, root: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        self.root, self.optimizers = root, optimizers
        self.trained: dict[str, Tensor] = {}
        self.reached: set[int] = set()
        self.known: set[int] = set()

    def take(self) -> None:
        """Look at the model as it is now: its own hooks and its first forward pass may make parameters."""
        metrics = {id(p) for module in self.root.modules() if isinstance(module, Metric) for p in module.parameters()}
        own = {name: p for name, p in self.root.named_parameters() if id(p) not in metrics}
        still = {name: p for name, p in self.trained.items() if name in own}
        self.trained = {name: p for name, p in own.items() if p.requires_grad or still.get(name) is p}
        self.known |= metrics | {id(p) for p in own.values()}

    @property
    def frozen(self) -> list[str]:
        return [name for name, _ in self.root.named_parameters() if name not in self.trained]

    @property
    def held(self) -> list[set[int]]:
        return [{id(p) for group in o.param_groups for p in group["params"]} for o in self.optimizers]

    def holders(self, name: str) -> int:
        return sum(id(self.trained[name]) in held for held in self.held)


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
