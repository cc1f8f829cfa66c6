import ast
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import STEPS, Call, Shape, Step, StepListener, broadcast, by, smaller, source_tree
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

# As functions of torch, methods and operators are named, without underscores and the r and i of __radd__ and __iadd__.
ELEMENTWISE = {
    *("add", "sub", "subtract", "mul", "multiply", "div", "divide", "truediv", "true_divide", "floordiv"),
    *("floor_divide", "mod", "remainder", "fmod", "pow", "maximum", "minimum", "max", "min", "fmax", "fmin", "atan2"),
    *("eq", "ne", "lt", "le", "gt", "ge", "greater", "greater_equal", "less", "less_equal", "not_equal", "isclose"),
    *("and", "or", "xor", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    "where",
}
# What puts a dimension of 1 into a tensor.
INSERTS = {"unsqueeze", "view", "reshape", "expand"}


@dataclass
class Pairing:
    """An elementwise operation of two tensors that gives a square of the batch.

    Args:
        shapes: of the two.
        compared: of how many rows, where one operand is what the network answers and the other is not; else None.
    """

    operation: str
    shapes: tuple[Shape, Shape]
    result: Shape
    place: Place
    compared: int | None = None

    @property
    def line(self) -> tuple[str, int]:
        return self.place.file, self.place.line


class Pairs(StepListener):
    """Keeps the elementwise operations whose result is a square of the batch, and neither operand is one.

    Or a square of some of its samples, or of nodes, where one operand is what the network answers and the other is not.
    Not those that are meant: where one operand was given its dimension in the same statement (`x[:, None] == y`), where
    both hold the same numbers (`x[:, None] == x`, also some lines later), and where one has a dimension of 1 in front,
    which no layer returns.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.calls: list[Pairing] = []
        self.inserted: dict[int, tuple[Tensor, Place]] = {}  # the tensors are held, lest another gets an id

    def after(self, call: Call) -> None:
        if not isinstance(call.result, Tensor):
            return
        name = call.name.strip("_")
        gives_dimension = name in INSERTS or (name == "getitem" and inserts(call.args[1]))
        if gives_dimension and 1 in call.result.shape:
            self.inserted[id(call.result)] = call.result, call.place
        elif name in ELEMENTWISE or (name[:1] in ("r", "i") and name[1:] in ELEMENTWISE):
            self._compare(call, name)

    def _compare(self, call: Call, name: str) -> None:
        given = [each for each in call.given if each.ndim]
        for one in given:
            for two in given:
                shapes, size = (tuple(one.shape), tuple(two.shape)), self.step.size
                common, compared = None if size is None else squared(*shapes, size), None
                answers = common is None and one.requires_grad != two.requires_grad
                if answers and shapes == ((len(one), 1), (len(one),)):
                    common, compared = (len(one), len(one)), len(one)
                if common is not None:
                    if not self._is_meant(one, two, call.place):
                        self.calls.append(Pairing(name, shapes, common, call.place, compared))
                    return

    def _is_meant(self, one: Tensor, two: Tensor, place: Place) -> bool:
        """Whether `one`, which has the dimension of 1, and `two`, which lacks it, are there to be paired."""
        dense = one.layout == two.layout == torch.strided  # others have no such storage
        if dense and one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr():
            return True
        known = [self.inserted[id(each)][1] for each in (one, two) if id(each) in self.inserted]
        return any(each.file == place.file and same_statement(place.file, each.line, place.line) for each in known)


def squared(one: Shape, two: Shape, size: int) -> Shape | None:
    """Return the shape of an operation of, say, (size, 1) and (size,), or None where it is no square of the batch.

    The second lacks a dimension that the first has: (1, size) would have been made for that.
    """
    common = broadcast(one, two)
    if common is None or size < 2 or len(two) >= len(one):
        return None
    aligned = list(zip(one, (1,) * (len(one) - len(two)) + two, strict=True))
    return common if (size, 1) in aligned and (1, size) in aligned else None


def inserts(index: Any) -> bool:
    """Whether an index puts a dimension in: x[:, None]."""
    return index is None or (isinstance(index, tuple) and any(each is None for each in index))


def same_statement(file: str, one: int, two: int) -> bool:
    """Whether two lines of a file belong to one statement, which may have several lines."""
    return one == two or any(first <= one <= last and first <= two <= last for first, last in statements(file))


@cache
def statements(file: str) -> list[tuple[int, int]]:
    """Return first and last line of each statement that holds no other."""
    simple = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
    return [
        (node.lineno, node.end_lineno or node.lineno)
        for node in ast.walk(source_tree(file))
        if isinstance(node, simple)
    ]


def detect(step: Step, limits: Limits) -> Hits:
    pairs = [each for each in step.heard().calls if each.compared is None or each.compared >= limits.paired_samples]
    open_pairs = [each for each in pairs if each.compared is None]
    follow: set[tuple[str, int]] = set()
    try:
        # Other things may be as many as the samples by chance.
        follow = {each.line for each in smaller(step).heard(Pairs).calls} if open_pairs else set()
    except CannotJudge as reason:
        if len(open_pairs) == len(pairs):
            first = f"{open_pairs[0].operation} in {open_pairs[0].place}"
            raise CannotJudge(f"{first} may be of samples or of something else that is as many: {reason}") from reason
    for each in pairs:
        if each.compared is not None or each.line in follow:
            shapes = " with ".join(map(by, each.shapes))
            what = f"{each.operation} of {shapes} makes {by(each.result)} in {step.name}: all samples with all"
            yield Hit(what, each.place)


PROBE = Probe(
    question="Is each sample's output compared with its own target only, without (B, 1) being broadcast against (B,)?",
    why="what comes out, a metric or a loss, is mostly about samples that have nothing to do with one another",
    fix=Fix(
        "give both one shape: squeeze(1) of the first, without keepdim=True; x[:, None] says where pairs are meant"
    ),
    thresholds={
        "paired_samples": Threshold(
            3,
            "rows of answers that are not the whole batch: two are as often two classes or two coordinates",
            factor=2.0,
            faulty=lambda answers, labels: (answers[:4, :1] - labels[:4]).square().mean(),
            healthy=lambda answers, labels: (answers[:2, :1] - labels[:2]).square().mean(),
        )
    },
    listener=Pairs,
    detect=detect,
    steps=STEPS,
    faulty=lambda answers, labels: (answers.amax(1, keepdim=True) - labels).square().mean(),
    healthy=lambda answers, labels: (answers.amax(1, keepdim=True) - labels[:, None]).square().mean(),
)
