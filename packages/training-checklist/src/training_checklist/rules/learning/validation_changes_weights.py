from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.epochs import WeightsOverValidation
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(seen: WeightsOverValidation, limits: Any) -> Iterator[Hit]:
    if seen.changed:
        yield Hit(
            f"training goes on from other weights than those that it had before validation: {len(seen.changed)} of "
            f"{seen.total} parameters are what validation put there",
            seen.place.beside(parameter=shown(seen.changed)),
        )


RULE = Rule(
    id="learning/validation-changes-weights",
    item="learning",
    question="Are the weights the same before and after validation?",
    why="every epoch begins with the weights that were put in for validation, such as an average of earlier ones, and "
    "the steps between are lost",
    severity=FAILED,
    evidence=WeightsOverValidation,
    judge=judge,
    fix=Fix("put the trained weights back in on_validation_end"),
    faulty=lambda: WeightsOverValidation(["net.weight"], 2),
    healthy=lambda: WeightsOverValidation([], 2),
)
