from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import LossTerm, LossTerms
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(loss: LossTerms, limits: Any) -> Iterator[Hit]:
    means = [term for term in loss.terms if abs(term.growth - 1) < limits.term_growth]
    for term in loss.terms:
        if means and abs(term.growth - 2) < limits.term_growth:
            yield Hit(
                f"of each sample twice, {term.operation} adds {term.doubled:.4g} to the loss and not {term.value:.4g}, "
                f"where {means[0].operation}, in {means[0].place}, adds {means[0].doubled:.4g} and not "
                f"{means[0].value:.4g}",
                term.place,
            )


RULE = Rule(
    id="network/sum-beside-mean",
    item="trace",
    question="Do all terms of the loss count alike, however large the batch is?",
    why="one term is a sum over the samples and another one a mean: their balance changes with the batch size, and the "
    "sum may drown the mean",
    severity=WARNING,
    evidence=LossTerms,
    judge=judge,
    fix=Fix("take the mean over the samples in both: x.sum(1).mean(), or reduction='mean'"),
    faulty=lambda: LossTerms([LossTerm("mse_loss", 0.8, 0.8), LossTerm("sum", 12.0, 24.0)]),
    healthy=lambda: LossTerms([LossTerm("sum", 12.0, 24.0), LossTerm("sum", 0.8, 1.6)]),
    thresholds={"term_growth": Threshold(0.1, "around 1, of a mean, and 2, of a sum: noise that is drawn moves it")},
)
