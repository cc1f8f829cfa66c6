"""Which operation made the values of a tensor, by autograd's graph."""

from typing import Any

from torch import Tensor

from training_checklist.engines.graph import operation

# Nodes of the graph that change no value, or only leave some out.
VIEWS = (
    *("View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "ToCopy", "Transpose", "Permute", "T", "Clone"),
    *("Slice", "Select", "Index"),
)


def made_by(tensor: Tensor) -> str:
    """Return "Softmax", "Relu", "Addmm", or "" where nothing is known."""
    node = behind_views(tensor.grad_fn)
    return "" if node is None else operation(node)


def made_by_weights(tensor: Tensor) -> bool:
    """Whether a tensor is what a layer returns, but for functions of single values."""
    node = tensor.grad_fn
    while node is not None:
        before = [behind_views(origin) for origin, _ in node.next_functions if origin is not None]
        if len(before) != 1:
            return any(origin is not None and operation(origin) == "AccumulateGrad" for origin in before)
        [node] = before
    return False


def behind_views(node: Any) -> Any:
    while node is not None and operation(node) in VIEWS:
        node = node.next_functions[0][0]
    return node
