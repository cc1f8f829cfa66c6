"""Concatenations of a tensor with itself."""

import ast
import linecache
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.own_code import is_own
from training_checklist.engines.places import caller
from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.network import Doubled

JOINS = {"cat", "concat", "concatenate", "hstack"}


class DoubledParts(Listener):
    """Keeps the concatenations by the project's own code that are given one tensor twice, which weights have made.

    Not along the first axis, where the second makes more rows and not more of each: an edge of a mesh in both
    directions, two views of a batch. Not those that repeat a tensor on purpose: `[x] * 2`, and one tensor three times
    or more with nothing beside it.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], Doubled] = {}  # by file and line

    def after(self, call: Call) -> None:
        parts = call.argument("tensors", 0) if call.name in JOINS else None
        if not isinstance(parts, (list, tuple)) or len(parts) < 2 or adds_rows(call, parts[0]):
            return
        known = {memory(part): part for part in parts if is_computed(part)}
        counts = Counter(memory(part) for part in parts if is_computed(part))
        double = next((known[key] for key, count in counts.items() if count > 1), None)
        if double is None or (len(parts) > 2 and len(parts) in counts.values()) or not is_own(caller()):
            return
        place = call.place
        if not any(first <= place.line <= last for first, last in repetitions(place.file)):
            shape = tuple(double.shape)
            self.found.setdefault((place.file, place.line), Doubled(call.name, shape, len(parts), place))


def adds_rows(call: Call, first: Any) -> bool:
    """Whether a concatenation goes along the first axis."""
    if not isinstance(first, Tensor) or first.ndim == 0:
        return False
    axis = (0 if first.ndim == 1 else 1) if call.name == "hstack" else call.argument("dim", 1, 0)
    return isinstance(axis, int) and axis % first.ndim == 0 and first.ndim > 1


def is_computed(part: Any) -> bool:
    """Whether it is what weights made of something, and neither a weight nor an input."""
    return isinstance(part, Tensor) and part.requires_grad and part.grad_fn is not None and part.numel() > 0


def memory(tensor: Tensor) -> tuple[Any, ...]:
    """Return what two tensors have in common that are one: where their numbers lie."""
    if tensor.layout != torch.strided:
        return (id(tensor),)
    try:
        return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()
    except RuntimeError:  # of torch.func, whose tensors lie nowhere
        return (id(tensor),)


@cache
def repetitions(file: str) -> list[tuple[int, int]]:
    """Return first and last line of each list that is multiplied by a number."""
    try:
        tree = ast.parse("".join(linecache.getlines(str(Path(file).absolute()))))
    except (SyntaxError, ValueError):
        return []
    products = (node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult))
    lists = (node for node in products if isinstance(node.left, (ast.List, ast.Tuple)))
    return [(node.lineno, node.end_lineno or node.lineno) for node in lists]
