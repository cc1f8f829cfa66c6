"""The graph of one training step: the line behind every node, where the graph is cut, and where gradients become 0."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.hooks import RemovableHandle

from training_checklist.engines.batches import tensors
from training_checklist.engines.observe import Places

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
    place: str
    origins: list[Any]
    after: str
    before: str = ""

    def __str__(self) -> str:
        if not self.after:
            return f"{self.operation} in {self.place}"
        left, right = self.after.split("."), (self.before or "the loss").split(".")
        same = next((i for i, pair in enumerate(zip(left, right, strict=False)) if pair[0] != pair[1]), 0)
        ends = f"{'.'.join(left[: same + 1])} and {'.'.join(right[: same + 1])}"
        return f"between {ends}: {self.operation} in {self.place}"


@dataclass(eq=False)
class Death:
    """An operation whose backward was given a gradient and passed nothing but zeros on to `parameters`."""

    operation: str
    place: str
    parameters: set[int]

    def __str__(self) -> str:
        return f"{self.operation} in {self.place}"


class BackwardGraph(TorchFunctionMode):
    """While it is entered, operations are recorded; afterwards `kill` and `cut` tell why a parameter gets nothing."""

    def __init__(self, root: nn.Module) -> None:
        super().__init__()
        self.root, self.places = root, Places(root)
        self.nodes: dict[Any, str] = {}  # with the place of its operation
        self.cuts: list[Cut] = []
        self.deaths: list[Death] = []
        self.without_grad: dict[str, str] = {}  # outermost modules that run under no_grad, with the line
        self._stems: dict[int, set[int]] = {}  # of a tensor: the cuts that it descends from
        self._kept: list[Tensor] = []  # so that no id is given twice
        self._returned = ""
        self._handles: list[RemovableHandle] = []
        self.recording = False
        self._watched: set[Any] = set()

    def __enter__(self) -> "BackwardGraph":
        self.recording = True
        for name, module in self.root.named_modules():
            if name:
                self._handles.append(module.register_forward_pre_hook(partial(self._before, name)))
                self._handles.append(module.register_forward_hook(partial(self._after, name)))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        self.stop()
        super().__exit__(*error)

    def stop(self) -> None:
        """Record no more, also where it is still entered."""
        self.recording = False
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.recording:
            return function(*args, **(kwargs or {}))
        given = list(tensors([args, kwargs or {}]))
        origins = [tensor if tensor.grad_fn is None else tensor.grad_fn for tensor in given if tensor.requires_grad]
        result = function(*args, **(kwargs or {}))
        made = list(tensors(result))
        name = getattr(function, "__name__", "?")
        stems = set().union(*(self._stems.get(id(tensor), ()) for tensor in given))
        for tensor in made:
            if tensor.grad_fn is not None and tensor.grad_fn not in self.nodes:
                self._label(tensor.grad_fn, self.places.near())
        if origins and (made or name in LEAVES_TORCH) and not any(tensor.requires_grad for tensor in made):
            operation = ".data" if name == "__get__" else name
            self.cuts.append(Cut(operation, self.places.near(), origins, self._returned))
            stems.add(len(self.cuts) - 1)
        if stems:
            into = [args[0]] if name == "__setitem__" else made
            for tensor in into:
                self._stems.setdefault(id(tensor), set()).update(stems)
            self._kept += into
        return result

    def cut(self, parameter: Tensor, loss: Tensor) -> Cut | None:
        """Return where the way from a parameter to the loss is cut."""
        stems = self._stems.get(id(loss), set())
        above = [cut for cut in self.cuts if id(parameter) in parameters(cut.origins)]
        through = [cut for index, cut in enumerate(self.cuts) if index in stems and cut in above]
        return next(iter(through or [cut for cut in above if cut.operation in LEAVES_TORCH]), None)

    def watch(self) -> None:
        """Let the backward pass that follows tell where gradients become 0."""
        for node in set(self.nodes) - self._watched:
            self._watched.add(node)
            node.register_hook(partial(self._judge, node))

    def kill(self, parameter: Tensor) -> Death | None:
        """Return where the gradient of a parameter became 0: nearest to the loss."""
        return next((death for death in self.deaths if id(parameter) in death.parameters), None)

    def _judge(self, node: Any, made: tuple[Tensor | None, ...], given: tuple[Tensor | None, ...]) -> None:
        if not any(gradient is not None and bool(gradient.any()) for gradient in given):
            return
        edges = zip(node.next_functions, made, strict=False)
        dead = [edge for (edge, _), gradient in edges if edge and gradient is not None and not gradient.any()]
        if dead:
            name = node.name().rpartition("::")[2].partition("Backward")[0]
            self.deaths.append(Death(name, self.nodes[node], parameters(dead)))

    def _label(self, node: Any, place: str) -> None:
        self.nodes |= {other: place for other in walk([node], self.nodes)}

    def _before(self, name: str, module: nn.Module, inputs: Any) -> None:
        if not torch.is_grad_enabled() and not any(name.startswith(f"{outer}.") for outer in self.without_grad):
            self.without_grad.setdefault(name, self.places.near().rpartition(", ")[2])
        for tensor in tensors(inputs):
            for index in self._stems.get(id(tensor), ()):
                self.cuts[index].before = self.cuts[index].before or name

    def _after(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        self._returned = name


def walk(nodes: Iterable[Any], known: Any = ()) -> Iterator[Any]:
    """Yield the nodes of a graph from some on, but not behind known ones."""
    waiting, seen = list(nodes), set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen or node in known:
            continue
        seen.add(node)
        yield node
        waiting += [other for other, _ in node.next_functions]


def parameters(origins: Iterable[Any]) -> set[int]:
    """Return the ids of the leaf tensors that nodes lead to, and of those that are given themselves."""
    origins = list(origins)
    own = {id(origin) for origin in origins if isinstance(origin, Tensor)}
    nodes = walk(origin for origin in origins if not isinstance(origin, Tensor))
    return own | {id(node.variable) for node in nodes if hasattr(node, "variable")}
