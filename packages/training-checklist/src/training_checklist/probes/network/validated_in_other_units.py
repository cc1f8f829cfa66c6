from collections import deque
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanAbsoluteError

from training_checklist.instruments import DISTANCES, Call, Example, Small, Step, StepListener
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

MOST_PAIRS = 100  # the last ones: a step that samples first takes thousands of differences, which fill the memory
ROUNDING = 1e-5  # relative: the same float32 numbers, computed in another order


class Differences(StepListener):
    """Keeps pairs of tensors of which the difference is taken, whether a gradient goes through it, and where."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.pairs: deque[tuple[Tensor, Tensor, bool, Place]] = deque(maxlen=MOST_PAIRS)

    def after(self, call: Call) -> None:
        if call.name.strip("_") in {"sub", *DISTANCES} and len(call.given) == 2:
            one, other = call.given
            floats = one.is_floating_point() and other.is_floating_point()
            if one.shape == other.shape and floats and one.ndim and one.numel():
                self.pairs.append((one, other, call.result.requires_grad, call.place))


def detect(step: Step, limits: Limits) -> Hits:
    """Run training_step on the batch that is validated: equal answers are to be held against equal targets there."""
    trained = step.again(step.batch, training=False, name="training_step").heard(Differences).pairs
    asked = [
        (answers.detach().double(), targets.double())  # under autocast, answers have 16 bits
        for one, other, learns, _ in trained
        for answers, targets in ((one, other), (other, one))
        if learns and answers.requires_grad and not targets.requires_grad
    ]
    validated = step.heard().pairs
    if not asked or not validated:
        raise CannotJudge("one of the two steps takes no difference of answers and targets")
    for one, other, _, place in validated:
        one, other = one.double(), other.double()
        for answers, targets in ((one, other), (other, one)):
            known = [found for pair in asked if (found := asked_of(answers, *pair)) is not None]
            if known and all(is_other_unit(targets, each, limits.unit_numbers) for each in known):
                now, then = (f"{float(each.min()):.4g} to {float(each.max()):.4g}" for each in (targets, known[0]))
                yield Hit(
                    f"{step.name} compares the network's answers with targets from {now}, and training_step the "
                    f"same answers with targets from {then}, for the same samples",
                    place,
                )


def asked_of(answers: Tensor, known: Tensor, targets: Tensor) -> Tensor | None:
    """Return what training holds each of these answers against; None where it has others, or one of them twice."""
    ordered, order = known.flatten().sort()
    if len(ordered.unique()) < len(ordered):
        return None
    places = torch.searchsorted(ordered, answers.contiguous()).clamp(max=len(ordered) - 1)
    below = (places - 1).clamp(min=0)
    nearer = (ordered[below] - answers).abs() < (ordered[places] - answers).abs()
    places = torch.where(nearer, below, places)
    if not torch.allclose(ordered[places], answers, rtol=ROUNDING, atol=0):
        return None
    return targets.flatten()[order][places]


def is_other_unit(targets: Tensor, known: Tensor, least: int) -> bool:
    """Whether targets are others throughout, and in the same order: of all numbers, each sample, or each column."""
    if bool(torch.isclose(targets, known, rtol=ROUNDING, atol=0).any()):
        return False
    return any(in_order(now, then, least) for now, then in zip(arranged(targets), arranged(known), strict=True))


def arranged(tensor: Tensor) -> tuple[Tensor, ...]:
    rows = tensor.reshape(len(tensor), -1)
    return rows.reshape(1, -1), rows, rows.T


def in_order(rows: Tensor, others: Tensor, least: int) -> bool:
    """Whether each row rises where the other one does, and has so many different numbers."""
    rising = rows.gather(1, others.argsort(1)).diff(dim=1)
    return bool((rising >= 0).all()) and bool(((rising > 0).sum(1) >= least - 1).all())


class Scaled(Small):
    """Predicts a temperature, which is standardised for training."""

    def __init__(self) -> None:
        super().__init__()
        self.head, self.error = nn.Linear(16, 1), MeanAbsoluteError()

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        return functional.mse_loss(self(batch[0])[:, 0], (batch[1] - 300) / 50)

    def validation_step(self, batch: list[Tensor], batch_idx: int) -> None:
        self.error.update(self.in_units(self(batch[0])[:, 0]), batch[1])
        self.log("val/mae", self.error)

    def in_units(self, answers: Tensor) -> Tensor:
        return answers


class PutBack(Scaled):
    def in_units(self, answers: Tensor) -> Tensor:
        return answers * 50 + 300


def temperatures(batch_size: int = 16) -> Any:
    inputs = torch.randn(32, 8)
    return DataLoader(TensorDataset(inputs, 300 + 50 * inputs[:, 0]), batch_size)


PROBE = Probe(
    question="Does validation_step put the network's answers back into the units of the targets that it compares with?",
    why="the error says how far two units are apart, and hardly how good the answers are: it can choose no checkpoint",
    fix=Fix("undo what training does to the targets (their mean and deviation, a logarithm) on the answers first"),
    listener=Differences,
    steps=("validation_step",),
    detect=detect,
    thresholds={
        "unit_numbers": Threshold(
            8,
            "numbers that stand in the same order: of so many, unrelated ones do so once in 8! = 40,320 times",
            faulty=Example(Scaled, temperatures),
            healthy=Example(Scaled, partial(temperatures, 4)),
        )
    },
    faulty=Example(Scaled, temperatures),
    healthy=Example(PutBack, temperatures),
    also_healthy=(Example(PutBack, temperatures, trainer={"precision": "bf16-mixed"}),),
)
