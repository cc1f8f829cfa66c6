"""Autograd's graph of a step: which operation, on which line, made each node, and what nodes lead to."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from torch import Tensor

from training_checklist.engines.tracer import Call, Listener
from training_checklist.finding import Place

T = TypeVar("T")


class Graph(Listener):
    """Keeps the place of every node, and the graph with them. `clear` it after a step."""

    def __init__(self) -> None:
        self.places: dict[Any, Place] = {}

    def clear(self) -> None:
        self.places.clear()

    def after(self, call: Call) -> None:
        for tensor in call.made:
            if tensor.grad_fn is not None and tensor.grad_fn not in self.places:
                new = list(walk([tensor.grad_fn], self.places))
                self.places |= dict.fromkeys(new, call.place)
                self.found(new)

    def found(self, nodes: list[Any]) -> None:
        """Look at nodes that an operation has just made."""


def calls_behind(loss: Tensor, calls: Mapping[Any, T], passes: Callable[[Any], bool]) -> Iterator[T]:
    """Yield the calls, by the nodes that they made, to which a loss leads through nodes that pass."""
    return (calls[node] for node in nearest(loss, lambda node: node in calls, passes))


def nearest(loss: Tensor, wanted: Callable[[Any], bool], passes: Callable[[Any], bool]) -> Iterator[Any]:
    """Yield the wanted nodes to which a loss leads through nodes that pass, and not what is behind them."""
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if wanted(node):
            yield node
        elif passes(node):
            waiting += [below for below, _ in node.next_functions]


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


def leaf_tensors(origins: Iterable[Any]) -> dict[int, Tensor]:
    """Return the leaves that nodes or tensors lead to, by id; a leaf among them leads to itself."""
    origins = [origin for origin in origins if not isinstance(origin, Tensor) or origin.requires_grad]
    nodes = [origin.grad_fn if isinstance(origin, Tensor) else origin for origin in origins]
    found = [origin for origin, node in zip(origins, nodes, strict=True) if node is None]
    found += [node.variable for node in walk(nodes) if hasattr(node, "variable")]
    return {id(leaf): leaf for leaf in found}


def last_weights(loss: Tensor) -> set[int]:
    """Return the ids of the matrices and kernels that make answers: between them and the loss there is no other."""
    mixing = nearest(loss, lambda node: bool(weights_of(node)), lambda node: True)
    return {weight for node in mixing for weight in weights_of(node)}


def weights_of(node: Any) -> set[int]:
    """Return the ids of the matrices and kernels that go into an operation, as they are or transposed."""
    leaves = (behind_transposed(below) for below, _ in node.next_functions)
    return {id(each.variable) for each in leaves if hasattr(each, "variable") and each.variable.ndim > 1}


def behind_transposed(node: Any) -> Any:
    while node is not None and operation(node) in ("T", "Transpose", "View"):
        node = node.next_functions[0][0]
    return node


def operation(node: Any) -> str:
    """Return what made a node, as autograd calls it: "Sqrt", "Addmm"."""
    return node.name().rpartition("::")[2].partition("Backward")[0]


def is_linear(node: Any) -> bool:
    """Whether a node adds up what has gradients, each times a factor that has none, or only puts it in another form."""
    if operation(node) in ("Mul", "Div"):
        return sum(below is not None for below, _ in node.next_functions) == 1
    return operation(node) in ("Add", "Sub", "Rsub", "Neg", "Sum", "Mean", "Stack", "Cat", "View")
