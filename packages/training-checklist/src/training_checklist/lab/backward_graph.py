"""The graph of one training step: where it is cut, and where gradients become 0."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from torchmetrics import Metric

from training_checklist.engines.batches import tensors
from training_checklist.engines.graph import Graph, leaf_tensors, operation
from training_checklist.engines.places import Places
from training_checklist.engines.tracer import Call
from training_checklist.engines.uncopied import after_forward, are_batched, before_forward
from training_checklist.finding import Place

LEAVES_TORCH = {"item", "tolist", "numpy", "__array__", "__float__"}


@dataclass
class Cut:
    """An operation on something that has gradients, whose result has none.

    Args:
        origins: nodes of the graph, and parameters, that went in.
        after: the module that had returned last.
        before: the module that took the result first, "" for none.
    """

    operation: str
    place: Place
    origins: list[Any]
    after: str
    before: str = ""

    @property
    def between(self) -> str:
        if not self.after or self.after == self.before:
            return f"after {self.after}" if self.after else ""
        left, right = self.after.split("."), (self.before or "the loss").split(".")
        same = next((i for i, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0)
        return f"between {'.'.join(left[: same + 1])} and {'.'.join(right[: same + 1])}"


@dataclass(eq=False)
class Death:
    """An operation whose backward was given a gradient and passed nothing but zeros on to `parameters`."""

    operation: str
    place: Place
    parameters: set[int]


def origin_of(tensor: Tensor) -> Any:
    """Return what made a tensor, or a leaf itself; a view that was made without gradients is its leaf's."""
    if tensor.grad_fn is not None:
        return tensor.grad_fn
    return tensor if tensor._base is None else tensor._base


class BackwardGraph(Graph):
    """Records the operations of a step; afterwards `kill` and `cut` tell why a parameter gets nothing."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self.root, self.names = root, Places(root)
        self.cuts: list[Cut] = []
        self.deaths: list[Death] = []
        self.without_grad: dict[str, Place] = {}  # outermost modules that run under no_grad, with the line
        self.leaves: dict[int, tuple[str, Place]] = {}  # tensors that the step makes and wants gradients of
        self._stems: dict[int, set[int]] = {}  # of a tensor: the cuts that it descends from
        self._kept: list[Tensor] = []  # so that no id is given twice
        self._returned = ""
        self._origins: list[Any] = []
        self._handles: list[RemovableHandle] = []
        self._watched: set[Any] = set()

    def start(self) -> None:
        inside = {id(part) for module in self.root.modules() if isinstance(module, Metric) for part in module.modules()}
        for name, module in self.root.named_modules():
            if name and id(module) not in inside:
                self._handles.append(before_forward(module, partial(self._before, name)))
                self._handles.append(after_forward(module, partial(self._after, name)))

    def stop(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def before(self, call: Call) -> None:
        # Before: an operation in place changes what made its input.
        wanted = (tensor for tensor in call.given if tensor.requires_grad)
        self._origins = [origin_of(tensor) for tensor in wanted]

    def after(self, call: Call) -> None:
        super().after(call)
        made, stems = call.made, set().union(*(self._stems.get(id(tensor), ()) for tensor in call.given))
        if self._origins and (made or call.name in LEAVES_TORCH) and not any(each.requires_grad for each in made):
            name = ".data" if call.name == "__get__" else call.name
            self.cuts.append(Cut(name, call.place, self._origins, self._returned))
            stems.add(len(self.cuts) - 1)
        self._keep([tensor for tensor in made if tensor.requires_grad and tensor.is_leaf], call)
        if stems:
            into = [call.args[0]] if call.name == "__setitem__" else made
            for tensor in into:
                self._stems.setdefault(id(tensor), set()).update(stems)
            self._kept += into

    def _keep(self, leaves: list[Tensor], call: Call) -> None:
        for leaf in leaves:
            if not isinstance(leaf, nn.Parameter):
                self.leaves.setdefault(id(leaf), (call.name, call.place))
                self._kept.append(leaf)

    def cut(self, parameter: Tensor, loss: Tensor | None) -> Cut | None:
        """Return where the way from a parameter to the loss is cut."""
        stems = self._stems.get(id(loss), set())
        above = [cut for cut in self.cuts if id(parameter) in leaf_tensors(cut.origins)]
        through = [cut for index, cut in enumerate(self.cuts) if index in stems and cut in above]
        return next(iter(through or [cut for cut in above if cut.operation in LEAVES_TORCH]), None)

    def watch(self) -> None:
        """Let the backward pass that follows tell where gradients become 0."""
        for node in set(self.places) - self._watched:
            self._watched.add(node)
            node.register_hook(partial(self._judge, node))

    def kill(self, parameters: Iterable[Tensor]) -> Death | None:
        """Return where the gradients of parameters became 0: the last on their way that was given another one."""
        ids = {id(parameter) for parameter in parameters}
        return next((death for death in reversed(self.deaths) if death.parameters & ids), None)

    def _judge(self, node: Any, made: tuple[Tensor | None, ...], given: tuple[Tensor | None, ...]) -> None:
        if are_batched((*made, *given)):
            return
        if not any(gradient is not None and bool(gradient.any()) for gradient in given):
            return
        edges = zip(node.next_functions, made, strict=False)
        # What is empty is no zero: nothing was chosen, as of the experts of a mixture.
        known = [
            (edge, gradient) for (edge, _), gradient in edges if edge and gradient is not None and gradient.numel()
        ]
        dead = [edge for edge, gradient in known if not gradient.any()]
        if dead:
            self.deaths.append(Death(operation(node), self.places[node], set(leaf_tensors(dead))))

    def _before(self, name: str, module: nn.Module, inputs: Any) -> None:
        if not torch.is_grad_enabled() and not any(name.startswith(f"{outer}.") for outer in self.without_grad):
            self.without_grad.setdefault(name, self.names.here())
        for tensor in tensors(inputs):
            for index in self._stems.get(id(tensor), ()):
                self.cuts[index].before = self.cuts[index].before or name

    def _after(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        self._returned = name
