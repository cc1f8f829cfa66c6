import ast
from collections import Counter
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from training_checklist.instruments import Call, Small, Step, StepListener, by, source_tree
from training_checklist.probe import WARNING, Fix, Probe

JOINS = {"cat", "concat", "concatenate", "hstack"}


class Concatenations(StepListener):
    """Keeps those by the project's own code that are given one tensor twice, which weights have made.

    Not along the first axis, where the second makes more rows and not more of each: an edge of a mesh in both
    directions, two views of a batch. Not those that repeat a tensor on purpose: `[x] * 2`, and one tensor three times
    or more with nothing beside it.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.joined = WeakTensorKeyDictionary()  # what is joined with itself: the line
        self.apart: set[tuple[str, int]] = set()  # lines that have joined different tensors, as after a first turn

    def after(self, call: Call) -> None:
        name = call.name.strip("_").removeprefix("r")
        if name in ("cos", "sin") or (name == "mul" and len(call.given) > 1):  # each half may meet other numbers
            for joined in (each for each in call.given if each in self.joined):
                self.apart.add(self.joined[joined])
                self.found.pop(self.joined[joined], None)
        parts = call.argument("tensors", 0) if call.name in JOINS else None
        if not isinstance(parts, (list, tuple)) or len(parts) < 2 or adds_rows(call, parts[0]):
            return
        known = {memory(part): part for part in parts if is_computed(part)}
        counts = Counter(memory(part) for part in parts if is_computed(part))
        double = next((known[key] for key, count in counts.items() if count > 1), None)
        if (double is not None and len(parts) in counts.values() and len(parts) > 2) or not call.is_own:
            return
        line = (call.place.file, call.place.line)
        if double is None:
            self.apart.add(line)
            self.found.pop(line, None)
        if line in self.apart:
            return
        if any(first <= call.place.line <= last for first, last in repetitions(call.place.file)):
            return
        self.joined[call.result] = line
        shape = by(tuple(double.shape))
        of_several = f"{call.name} of {len(parts)} tensors is given one of them twice, that of {shape}"
        self.keep(call, f"{call.name} joins a tensor of {shape} with itself" if len(parts) == 2 else of_several)


def adds_rows(call: Call, first: Any) -> bool:
    """Whether a concatenation goes along the first axis."""
    if not isinstance(first, Tensor) or first.ndim == 0:
        return False
    axis = (0 if first.ndim == 1 else 1) if call.name == "hstack" else call.argument("dim", 1, 0)
    return isinstance(axis, int) and axis % first.ndim == 0 and first.ndim > 1


def is_computed(part: Any) -> bool:
    """Whether it is what weights made of something, and neither a weight nor an input.

    Not a number for each sample: beside others that is an element of a matrix, of which two may be the same.
    """
    made = isinstance(part, Tensor) and part.requires_grad and part.grad_fn is not None
    return made and part.ndim > 0 and part.numel() > len(part)


def memory(tensor: Tensor) -> tuple[Any, ...]:
    """Return what two tensors have in common that are one: where their numbers lie."""
    if tensor.layout != torch.strided:
        return (id(tensor),)
    try:
        signs = tensor.is_conj(), tensor.is_neg()  # with the same numbers in memory it may stand for others
        return tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride(), *signs
    except RuntimeError:  # of torch.func, whose tensors lie nowhere
        return (id(tensor),)


@cache
def repetitions(file: str) -> list[tuple[int, int]]:
    """Return first and last line of each list that is multiplied by a number."""
    products = (
        node for node in ast.walk(source_tree(file)) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
    )
    lists = (node for node in products if isinstance(node.left, (ast.List, ast.Tuple)))
    return [(node.lineno, node.end_lineno or node.lineno) for node in lists]


class Doubled(Small):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs))
        return self.head(torch.cat([hidden, hidden], 1))


class Joined(Doubled):
    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.first(inputs))
        return self.head(torch.cat([hidden, torch.relu(self.second(hidden))], 1))


class Recalling(Doubled):
    """Goes over what it has made, beside what it began with: the same, in the first turn."""

    def __init__(self) -> None:
        super().__init__()
        self.core = nn.Linear(16, 8)

    def forward(self, inputs: Tensor) -> Tensor:
        begun = hidden = torch.relu(self.first(inputs))
        for _ in range(3):
            hidden = torch.relu(self.core(torch.cat([hidden, begun], 1)))
        return self.head(torch.cat([hidden, begun], 1))


class Turned(Doubled):
    """Turns pairs of numbers by angles that it learns, of which each pair has one (rotary embeddings)."""

    def forward(self, inputs: Tensor) -> Tensor:
        angles, hidden = self.second(inputs), torch.relu(self.first(inputs)).repeat(1, 2)
        angles = torch.cat([angles, angles], 1)
        return self.head(hidden * angles.cos() + hidden.roll(8, 1) * angles.sin())


class Symmetric(Doubled):
    """Scales its answers by the determinant of a symmetric matrix for each sample."""

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.first(inputs).tanh()
        one, two, between = (hidden[:, index : index + 1] for index in range(3))
        matrix = torch.cat([one + 2, between, between, two + 2], 1).view(-1, 2, 2)
        return hidden[:, :4] * torch.linalg.det(matrix).view(-1, 1)


def conjugated(answers: Tensor, labels: Tensor) -> Tensor:
    """Join complex numbers with their conjugates, which lie where they do."""
    values = torch.complex(answers, answers)
    return torch.cat([values, values.conj()], 1).imag.logsumexp(1).mean()


PROBE = Probe(
    question="Does each torch.cat join different tensors, and not one tensor with itself?",
    why="the second one tells the next layer nothing new: something else was meant to be there",
    severity=WARNING,
    fix=Fix("look at what the other part should be: a skip connection, another branch, another time step"),
    listener=Concatenations,
    faulty=Doubled,
    healthy=Joined,
    also_healthy=(Symmetric, Recalling, Turned, conjugated),
)
