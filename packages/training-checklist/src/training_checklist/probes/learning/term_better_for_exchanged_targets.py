from typing import Any

import torch
from torch import Tensor

from training_checklist.instruments import (
    EXCHANGES,
    NOTHING_LEARNT,
    ROUNDING,
    Call,
    Example,
    Listener,
    Small,
    Tracer,
    Trial,
    TwoEpochs,
    calls_behind,
    copies,
    exchanged,
    is_linear,
    labels_of_copies,
    learnt,
    range_test,
    seed_all,
    slopes,
    surely,
    unseen_batches,
)
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold


class Scalars(Listener):
    """Keeps each single number that has a gradient, by the node that made it, with its line."""

    def __init__(self) -> None:
        self.made: dict[Any, tuple[Tensor, Place]] = {}

    def after(self, call: Call) -> None:
        for tensor in call.made:
            if tensor.ndim == 0 and tensor.grad_fn is not None:
                self.made.setdefault(tensor.grad_fn, (tensor, call.place))

    def is_sum(self, node: Any) -> bool:
        """Whether a node makes a single number of others, each times a factor."""
        below = [other for other, _ in node.next_functions if other is not None]
        return is_linear(node) and all(other in self.made for other in below)


def detect(run: TwoEpochs, limits: Limits) -> Hits:
    learner, unseen = range_test(run).learner, unseen_batches(run)
    if labels_of_copies(run).unseen < surely():
        raise CannotJudge(NOTHING_LEARNT)
    with copies(run):
        places = [place for _, place in terms(learner, unseen[0])]
        if len(places) < 2:
            raise CannotJudge("the loss is no sum of several terms")
        targets = learner.targets(unseen[0])
        right = mean_terms(learner, unseen)
        others = [exchanged(batch, targets, EXCHANGES) for batch in unseen]
        wrong = torch.stack([mean_terms(learner, [*each]) for each in zip(*others, strict=True)])
    raised = right - wrong.mean(0)
    won = float(-raised.clamp_max(0).sum())  # by the terms that are lower with the true targets
    for place, here, there, more, deviation in zip(places, right, wrong.mean(0), raised, wrong.std(0), strict=True):
        # A term that has learnt nothing is a little higher for the one or the other.
        is_much = more > ROUNDING * abs(here) and more >= limits.least_share * won
        if is_much and more >= surely() * deviation:
            yield Hit(
                f"of a copy that has learnt, a term of the loss is {float(here):.4g} with the true targets, and "
                f"{float(there):.4g} with those of other samples: the better the answers, the higher it is",
                place,
            )


def terms(trial: Trial, batch: Any) -> list[tuple[float, Place]]:
    """Return what the loss is the sum of, each term with its sign and factor, and the line of what is in it."""
    scalars = Scalars()
    seed_all()
    with torch.enable_grad(), Tracer(trial.module, scalars):
        loss = trial.loss(batch)
    parts = {node: made for node, made in scalars.made.items() if not scalars.is_sum(node)}
    found = [*calls_behind(loss, parts, scalars.is_sum)]
    factors = slopes(loss, [tensor for tensor, _ in found])
    return [(float(tensor.detach() * factor), place) for (tensor, place), factor in zip(found, factors, strict=True)]


def mean_terms(trial: Trial, known: list[Any]) -> Tensor:
    return torch.tensor([[value for value, _ in terms(trial, batch)] for batch in known]).mean(0)


def with_share(sign: float) -> Example:
    """Make an example whose loss has the probability of the label as a further term."""

    class WithShare(Small):
        def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
            share = answers.softmax(1).gather(1, labels[:, None]).mean()
            return super().loss(answers, labels) + 0.5 * sign * share

    return learnt(WithShare, rate=0.5)


PROBE = Probe(
    question="Is each term of the loss lower with the true targets than with those of other samples?",
    why="this term leads away from what the targets ask for, and another one hides it",
    severity=WARNING,
    may_be_wrong="a term that a second network is to make larger, as in adversarial training, has this sign on purpose",
    detect=detect,
    fix=Fix("look at the sign of the term: a similarity or a score is subtracted, or 1 minus it is added"),
    thresholds={
        "least_share": Threshold(
            0.02,
            "of what the other terms win by the true targets: a head that is still at chance moves by less",
            faulty=with_share(0.3),
            healthy=with_share(0.1),
        )
    },
    faulty=with_share(1.0),
    healthy=with_share(-1.0),
)
