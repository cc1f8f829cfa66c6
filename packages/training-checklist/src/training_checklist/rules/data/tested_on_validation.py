from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.shared import TestedAgain
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(again: TestedAgain, limits: Any) -> Iterator[Hit]:
    if again.shared > limits.max_tested_again * again.total:
        yield Hit(
            f"{again.shared} of {again.total} samples of {again.name} are those of {again.validated}",
            again.place,
        )


RULE = Rule(
    id="data/tested-on-validation",
    item="limit_batches",
    question="Are other samples tested than those that training is validated with?",
    why="epochs, rates and networks are chosen by validation, so that the score of the same samples is too good",
    severity=WARNING,
    evidence=TestedAgain,
    judge=judge,
    fix=Fix("give test_dataloader a split of its own; where there is none, leave test_dataloader out"),
    faulty=lambda: TestedAgain("test_dataloader", "val_dataloader", 500, 500),
    healthy=lambda: TestedAgain("test_dataloader", "val_dataloader", 2, 500),
    thresholds={
        "max_tested_again": Threshold(
            0.01, "share of the test set with an exact copy among the others, as for training samples (shared-samples)"
        )
    },
)
