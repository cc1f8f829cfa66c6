from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    if given.dropped is not None:
        yield Hit(
            f"{given.name} gets what dropout returns: {given.zeros:.0%} of the answers are exactly 0", given.dropped
        )


RULE = Rule(
    id="network/dropout-on-output",
    item="trace",
    question="Does the criterion get the network's answers as they are?",
    why="an answer that was dropped says 0 whatever the input, and has no gradient; those that stay are scaled up",
    severity=WARNING,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("put the dropout before the last layer"),
    faulty=lambda: CriterionInput("mse_loss", (16,), (16,), zeros=0.3, dropped=Place(module="net.head.1")),
    healthy=lambda: CriterionInput("mse_loss", (16,), (16,), zeros=0.3, made_by="Relu"),
)
