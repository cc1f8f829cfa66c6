from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    SAMPLES,
    Call,
    Listener,
    Step,
    Tracer,
    as_in,
    isolate_rng,
    look,
    of_the_project,
    seed_all,
    slopes,
    train_split,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


@dataclass
class Term:
    """A number that many were brought down to, as a loss is; `value` is what it adds to the loss, to first order."""

    operation: str
    place: Place
    value: float

    @property
    def line(self) -> tuple[str, Place]:
        return self.operation, self.place


class Reductions(Listener):
    """Keeps the single numbers that many numbers are brought down to, and not those that are made of such ones."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Place, Tensor]] = []
        self.of_terms: dict[int, Tensor] = {}  # held, lest another tensor gets the id

    def after(self, call: Call) -> None:
        given = [tensor for tensor in call.given if tensor.requires_grad]
        if not given:
            return
        if all(id(tensor) in self.of_terms for tensor in given):
            self.of_terms |= {id(made): made for made in call.made}
        elif isinstance(call.result, Tensor) and call.result.ndim == 0:
            self.calls.append((call.name.strip("_"), call.place, call.result))
            self.of_terms[id(call.result)] = call.result


def detect(step: Step, limits: Limits) -> Hits:
    """Compare what each term adds to the loss of some samples, of each of them twice, and of others; in eval mode."""
    split = train_split(step)
    with of_the_project("the dataset, asked for other samples,"), as_in(split.stage, step.trainer):
        items = list(split.items(split.holdable(2 * SAMPLES, step.trainer)))
        half = len(items) // 2  # fewer of samples so large that a batch of more would take too much memory
        some, others = items[:half], items[half : 2 * half]
        groups = (some, some + some, others)
        batches = [split.batch_of(deepcopy(each), step.trainer) for each in groups]
    if not others:
        raise CannotJudge("the dataset has one sample only, or two take too much memory")
    once, twice, other = (terms(step, batch) for batch in batches)
    if len(once) < 2 or not [x.line for x in once] == [x.line for x in twice] == [x.line for x in other]:
        raise CannotJudge("the loss has one term only, or other ones for other samples")
    # What is the same for other samples is no term of the samples, but of the weights alone.
    known = [(a, b) for a, b, c in zip(once, twice, other, strict=True) if a.value != 0 and a.value != c.value]
    means = [(a, b) for a, b in known if abs(b.value / a.value - 1) < limits.term_growth]
    for a, b in known:
        if means and abs(b.value / a.value - 2) < limits.term_growth:
            mean, doubled = means[0]
            yield Hit(
                f"of each sample twice, {a.operation} adds {b.value:.4g} to the loss and not {a.value:.4g}, "
                f"where {mean.operation}, in {mean.place}, adds {doubled.value:.4g} and not {mean.value:.4g}",
                a.place,
            )


def terms(step: Step, batch: Any) -> list[Term]:
    """Return the share in the loss of each number that many were brought down to."""
    looked, reductions = look(step), Reductions()
    with isolate_rng(), torch.enable_grad(), Tracer(looked.module, reductions):
        seed_all()
        loss = looked.loss_of(batch)
    values = [value for _, _, value in reductions.calls]
    found = slopes(loss, values) if loss.requires_grad else [None] * len(values)
    return [
        Term(name, place, float(value.detach()) * float(slope))
        for (name, place, value), slope in zip(reductions.calls, found, strict=True)
        if slope is not None
    ]


def of_power(power: float) -> Any:
    """Return a loss of a sum and of one that is divided by a power of the number of samples: by 1, it is a mean."""

    def loss(answers: Tensor, labels: Tensor) -> Tensor:
        return answers.square().sum() + answers.abs().sum() / len(answers) ** power

    return loss


PROBE = Probe(
    question="Are either all terms of the loss means over the samples, or all of them sums?",
    why="one term is a sum over the samples and another one a mean: their balance changes with the batch size, and the "
    "sum may drown the mean",
    severity=WARNING,
    fix=Fix("take the mean over the samples in both: x.sum(1).mean(), or reduction='mean'"),
    thresholds={
        "term_growth": Threshold(
            0.1,
            "by which the growth may differ from 1 (a mean) and from 2 (a sum): noise that is drawn for each sample "
            "moves a mean of 8 by some hundredths, and 1.41 is as near to the one as to the other",
            faulty=of_power(0.92),  # grows by 1.06
            healthy=of_power(0.75),  # by 1.19
        )
    },
    detect=detect,
    faulty=of_power(1),
    healthy=of_power(0),
)
