from math import exp, log
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from training_checklist.instruments import Call, Step, StepListener, is_dense
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe, Threshold

PRODUCTS = {"matmul", "mm", "linear", "einsum", "bmm"}
SAME = {"view", "reshape", "float", "double", "to", "t", "transpose", "contiguous", "clone", "cat", "masked_fill"}
TIMES = {"mul": 1, "div": -1, "truediv": -1}
ROUNDING = 1e-3  # by which the length of a vector may be off 1: of one in 16 bits


class Cosines(StepListener):
    """Follows products of vectors of length 1, which are between -1 and 1, up to cross_entropy.

    Attributes:
        known: tensors, by their ids, with the number that they are times cosines.
        seen: (that number, classes, place) of each cross_entropy of them.
    """

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.known: dict[int, tuple[Tensor, float]] = {}
        self.seen: list[tuple[float, int, Any]] = []

    def after(self, call: Call) -> None:
        name, given, made = call.name.strip("_"), call.given, call.result
        factors = [self.known[id(each)][1] for each in given if id(each) in self.known]
        if name == "cross_entropy" and factors and call.is_functional:
            self.seen.append((max(factors), call.argument("input", 0).shape[1], call.place))
        elif not isinstance(made, Tensor) or not made.is_floating_point() or made.ndim < 2:
            return
        elif (name in PRODUCTS and len(given) == 2 and all(map(are_units, given))) or name == "cosine_similarity":
            self.known[id(made)] = made, 1.0
        elif factors and name in SAME:
            self.known[id(made)] = made, max(factors)
        elif factors and (times := TIMES.get(name.removeprefix("r").removeprefix("i"))):
            scales = [each for each in call.args if id(each) not in self.known]
            if len(scales) == 1 and is_fixed_number(scales[0]):
                self.known[id(made)] = made, factors[0] * abs(float(scales[0])) ** times


def are_units(tensor: Tensor) -> bool:
    """Whether rows or columns have length 1."""
    if tensor.ndim < 2 or not tensor.is_floating_point() or not is_dense(tensor):
        return False
    lengths = (torch.linalg.vector_norm(tensor.detach(), dim=dim, dtype=torch.float) for dim in (-1, -2))
    return any(bool(((each - 1).abs() < ROUNDING).all()) for each in lengths)


def is_fixed_number(scale: Any) -> bool:
    """Whether it is a number other than 0 that training does not change."""
    if isinstance(scale, Tensor):
        return scale.numel() == 1 and not scale.requires_grad and bool(scale != 0)
    return isinstance(scale, int | float) and scale != 0


def detect(step: Step, limits: Limits) -> Hits:
    for factor, classes, place in step.heard().seen:
        floor, chance = log(1 + (classes - 1) * exp(-2 * factor)), log(classes)
        if floor > limits.max_floor * chance:
            yield Hit(
                f"cross_entropy is given cosines times {factor:.3g}: with {classes} classes it cannot fall below "
                f"{floor:.3g}, and is {chance:.3g} where a network knows nothing",
                place,
            )


def choosing(scale: float) -> Any:
    """Make a loss by which each sample is to find itself among all, by cosines times a number."""

    def loss(answers: Tensor, labels: Tensor) -> Tensor:
        vectors = functional.normalize(answers, dim=1)
        return functional.cross_entropy(vectors @ vectors.T * scale, torch.arange(len(vectors)))

    return loss


PROBE = Probe(
    question="Are the cosines that cross_entropy is given divided by a temperature that is small enough?",
    why="cosines end at 1: the probability of the right class stays small, however alike its vectors are",
    severity=WARNING,
    fix=Fix("cosines / temperature with a temperature of 0.05 to 0.2, or a scale that is learnt"),
    listener=Cosines,
    detect=detect,
    thresholds={
        "max_floor": Threshold(
            0.5,
            "of the loss of a network that knows nothing: what is left to learn is then less than what is not",
            factor=1.5,
            faulty=choosing(0.7),
            healthy=choosing(1.05),
        )
    },
    faulty=choosing(0.1),
    healthy=choosing(10.0),
)
