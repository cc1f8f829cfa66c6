"""Operations over the samples of a batch: softmaxes, and elementwise ones that make a square of it."""

import ast
import linecache
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training_checklist.engines.criteria import CriterionCall
from training_checklist.engines.tracer import Call, Listener
from training_checklist.evidence.network import (
    OtherDimension,
    OtherDimensions,
    PaddingMask,
    Pairing,
    ProductsOfWeights,
    Shape,
    SoftmaxCall,
    broadcast,
)
from training_checklist.experiments.trace.made_by import made_by_weights
from training_checklist.finding import Place

SOFTMAXES = {"softmax", "log_softmax"}
# As functions of torch, methods and operators are named, without underscores and the r and i of __radd__ and __iadd__.
ELEMENTWISE = {
    *("add", "sub", "subtract", "mul", "multiply", "div", "divide", "truediv", "true_divide", "floordiv"),
    *("floor_divide", "mod", "remainder", "fmod", "pow", "maximum", "minimum", "max", "min", "fmax", "fmin", "atan2"),
    *("eq", "ne", "lt", "le", "gt", "ge", "greater", "greater_equal", "less", "less_equal", "not_equal", "isclose"),
    *("and", "or", "xor", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    "where",
}
LEAST = 3  # samples: fewer are as many as something else too easily
# What puts a dimension of 1 into a tensor.
INSERTS = {"unsqueeze", "view", "reshape", "expand"}


class SoftmaxesOverBatch(Listener):
    """Keeps the softmaxes over a first dimension of `size`, which is that of the batch."""

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.calls: list[SoftmaxCall] = []

    def after(self, call: Call) -> None:
        if plain(call.name).removeprefix("special_") not in SOFTMAXES or not torch.is_grad_enabled() or not call.given:
            return
        tensor, dim = call.given[0], call.argument("dim", 1)
        if dim is None:  # as torch.nn.functional has it, with a warning
            dim = 0 if tensor.ndim in (0, 1, 3) else 1
        shape = tuple(tensor.shape)
        if isinstance(dim, int) and len(shape) > 1 and dim % len(shape) == 0 and shape[0] == self.size:
            of_pairs = len(shape) == 2 and shape[0] == shape[1] and not made_by_weights(tensor)
            self.calls.append(SoftmaxCall(shape, call.place, of_pairs))


class OverDimensions(Listener):
    """Keeps what is done over a dimension of a tensor, to be held against a criterion that gets the same tensor."""

    def __init__(self) -> None:
        self.calls: list[tuple[Tensor, OtherDimension]] = []

    def after(self, call: Call) -> None:
        name, dim = plain(call.name), call.argument("dim", 1)
        if name not in {*SOFTMAXES, "argmax"} or not call.given or not isinstance(dim, int):
            return
        tensor = call.given[0]
        if tensor.ndim > 1 and dim % tensor.ndim != 1:
            self.calls.append((tensor, OtherDimension(name, tuple(tensor.shape), dim % tensor.ndim, "", call.place)))

    def against(self, criteria: list[CriterionCall]) -> OtherDimensions:
        """Return those that are not over the classes, each line once."""
        found: dict[tuple[str, int], OtherDimension] = {}
        for tensor, known in self.calls:
            for criterion in criteria:
                given = criterion.input
                same = given.shape == tensor.shape and given.stride() == tensor.stride()
                if same and criterion.num_classes is not None and given.data_ptr() == tensor.data_ptr():
                    known.criterion = criterion.name
                    found[known.place.file, known.place.line] = known
        return OtherDimensions([*found.values()])


class AttentionAxes(Listener):
    """Keeps softmaxes whose result is multiplied as a matrix, and the dimension that the product adds up over."""

    def __init__(self) -> None:
        self.weights: list[tuple[Tensor, int, Place]] = []
        self.found: dict[tuple[str, int], OtherDimension] = {}

    def after(self, call: Call) -> None:
        name, result = plain(call.name), call.result
        if not call.given or not isinstance(result, Tensor):
            return
        if name == "softmax":
            dim = call.argument("dim", 1)
            if isinstance(dim, int) and result.ndim > 1:
                self.weights.append((result, dim % result.ndim, call.place))
            return
        known = next((each for each in self.weights if each[0] is call.given[0]), None)
        if known is None:
            return
        weights, dim, place = known
        if name == "dropout":
            self.weights.append((result, dim, place))
        elif name in ("matmul", "bmm") and dim != weights.ndim - 1 and weights.ndim > 2:
            product = OtherDimension("softmax", tuple(weights.shape), dim, name, place)
            self.found[place.file, place.line] = product

    @property
    def evidence(self) -> ProductsOfWeights:
        return ProductsOfWeights([*self.found.values()])


@dataclass
class Inserted:
    """A tensor that was given a dimension; held, lest another gets its id."""

    tensor: Tensor
    place: Place


class Pairs(Listener):
    """Keeps the elementwise operations whose result is a square of the batch, and neither operand is one.

    Or a square of some of its samples, or of nodes, where one operand is what the network answers and the other is not.
    They are meant where one operand was given its dimension in the same statement (`x[:, None] == y`), where both hold
    the same numbers (`x[:, None] == x`, also some lines later), and where one has a dimension of 1 in front, which no
    layer returns.
    """

    def __init__(self, size: int | None) -> None:
        self.size = size
        self.calls: list[Pairing] = []
        self.inserted: dict[int, Inserted] = {}

    def after(self, call: Call) -> None:
        if not isinstance(call.result, Tensor):
            return
        name = plain(call.name)
        gives_dimension = name in INSERTS or (name == "getitem" and inserts(call.args[1]))
        if gives_dimension and 1 in call.result.shape:
            self.inserted[id(call.result)] = Inserted(call.result, call.place)
        elif name in ELEMENTWISE or (name[:1] in ("r", "i") and name[1:] in ELEMENTWISE):
            self._compare(call, name)

    def _compare(self, call: Call, name: str) -> None:
        given = [each for each in call.given if each.ndim]
        for one in given:
            for two in given:
                shapes = tuple(one.shape), tuple(two.shape)
                common = None if self.size is None else squared(*shapes, self.size)
                compared = common is None and one.requires_grad != two.requires_grad and len(one) >= LEAST
                if compared and shapes == ((len(one), 1), (len(one),)):
                    common = (len(one), len(one))
                if common is not None:
                    meant = self._is_meant(one, two, call.place)
                    self.calls.append(Pairing(name, shapes, common, call.place, meant, compared or None))
                    return

    def _is_meant(self, one: Tensor, two: Tensor, place: Place) -> bool:
        """Whether `one`, which has the dimension of 1, and `two`, which lacks it, are there to be paired."""
        dense = one.layout == two.layout == torch.strided  # others have no such storage
        if dense and one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr():
            return True
        known = [self.inserted[id(each)].place for each in (one, two) if id(each) in self.inserted]
        return any(each.file == place.file and same_statement(place.file, each.line, place.line) for each in known)


def squared(one: Shape, two: Shape, size: int) -> Shape | None:
    """Return the shape of an operation of, say, (size, 1) and (size,), or None where it is no square of the batch.

    The second lacks a dimension that the first has: (1, size) would have been made for that.
    """
    common = broadcast(one, two)
    if common is None or size < 2 or len(two) >= len(one):
        return None
    aligned = (1,) * (len(one) - len(two)) + two
    rows = [index for index, (mine, other) in enumerate(zip(one, aligned, strict=True)) if (mine, other) == (size, 1)]
    columns = [
        index for index, (mine, other) in enumerate(zip(one, aligned, strict=True)) if (mine, other) == (1, size)
    ]
    return common if rows and columns else None


def inserts(index: Any) -> bool:
    """Whether an index puts a dimension in: x[:, None]."""
    return index is None or (isinstance(index, tuple) and any(each is None for each in index))


def plain(name: str) -> str:
    return name.strip("_")


def same_statement(file: str, one: int, two: int) -> bool:
    """Whether two lines of a file belong to one statement, which may have several lines."""
    return one == two or any(first <= one <= last and first <= two <= last for first, last in statements(file))


@cache
def statements(file: str) -> list[tuple[int, int]]:
    """Return first and last line of each statement that holds no other."""
    try:
        tree = ast.parse("".join(linecache.getlines(str(Path(file).absolute()))))
    except (SyntaxError, ValueError):
        return []
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
    return [(node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree) if isinstance(node, simple)]


class Masks(Listener):
    """Keeps the masks of attention over token ids, and what embeddings take for padding."""

    def __init__(self) -> None:
        self.tokens: list[Tensor] = []
        self.padding: list[Tensor] = []  # True where an id is the padding's
        self.calls: list[PaddingMask] = []

    def after(self, call: Call) -> None:
        if call.name == "embedding" and call.is_functional:
            index = call.argument("padding_idx", 2)
            ids = call.argument("input", 0)
            if not isinstance(ids, Tensor) or ids.ndim != 2:
                return
            self.tokens.append(ids)
            if index is not None and bool((ids == index).any()):
                self.padding.append(ids == index)
                self.calls.append(PaddingMask(False, *inside(ids == index, ids), len(ids), call.place))
        elif call.name == "multi_head_attention_forward":
            self._compare(call.kwargs.get("key_padding_mask"), call)

    def _compare(self, mask: Any, call: Call) -> None:
        if not isinstance(mask, Tensor):
            return
        left_out = mask if mask.dtype == torch.bool else mask == -torch.inf
        padding = next((each for each in self.padding if each.shape == left_out.shape), None)
        tokens = next((each for each in self.tokens if each.shape == left_out.shape), None)
        if padding is not None and bool((padding != left_out).all()):
            self.calls.append(PaddingMask(True, place=call.place))
        elif tokens is not None:
            self.calls.append(PaddingMask(False, *inside(left_out, tokens), len(tokens), call.place))


def inside(left_out: Tensor, tokens: Tensor) -> tuple[int, int | None]:
    """Return in how many rows of (B, T) something is left out between what is kept, and its id where it has one."""
    kept = (~left_out).long()
    between = left_out & (kept.cumsum(1) > 0) & (kept.flip(1).cumsum(1).flip(1) > 0)
    found = tokens[between].unique()
    return int(between.any(1).sum()), int(found[0]) if len(found) == 1 else None
