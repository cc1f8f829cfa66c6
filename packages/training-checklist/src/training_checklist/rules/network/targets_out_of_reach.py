from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold

NEVER_NEGATIVE = {"Relu": "a ReLU", "Softplus": "a softplus", "Exp": "an exp"}
SHARES = {"Sigmoid": "a sigmoid", "Softmax": "a softmax"}


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    share, made = given.below, NEVER_NEGATIVE.get(given.made_by) or SHARES.get(given.made_by)
    if given.made_by in SHARES:
        share += given.above
    if made and share > limits.beyond:
        bounds = "0 to 1" if given.made_by in SHARES else "0 and more"
        yield Hit(
            f"{made} makes the answers that {given.name} gets, {bounds}, and {share:.0%} of the targets lie beyond",
            given.place,
        )


RULE = Rule(
    id="network/targets-out-of-reach",
    item="trace",
    question="Can the network answer what the targets ask for?",
    why="the last activation bounds the answers: for those samples no training brings them to their targets",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("remove the activation after the last layer, or scale the targets to its range"),
    faulty=lambda: CriterionInput("mse_loss", (16, 1), (16, 1), 0.0, 2.0, made_by="Relu", below=0.5),
    healthy=lambda: CriterionInput("mse_loss", (16, 1), (16, 1), 0.0, 2.0, made_by="Relu"),
    thresholds={"beyond": Threshold(0.05, "share of targets: a few outliers may be given up")},
)
