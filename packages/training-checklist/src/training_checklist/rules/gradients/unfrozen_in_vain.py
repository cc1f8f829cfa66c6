from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import counted, shown
from training_checklist.evidence.gradients import UnfrozenLater
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(later: UnfrozenLater, limits: Any) -> Iterator[Hit]:
    if later.names:
        yield Hit(
            f"{counted(later.names)} are unfrozen when epoch {later.epoch} begins, and no optimizer holds them",
            later.place.beside(parameter=shown(later.names)),
        )


RULE = Rule(
    id="gradients/unfrozen-in-vain",
    item="gradients",
    question="Is every parameter that is unfrozen during training held by an optimizer?",
    why="configure_optimizers ran while they were frozen, and left them out: they get gradients and never change",
    severity=FAILED,
    evidence=UnfrozenLater,
    judge=judge,
    fix=Fix(
        "give the optimizer all parameters from the beginning: it passes over those without a gradient; or call "
        "optimizer.add_param_group when they are unfrozen"
    ),
    faulty=lambda: UnfrozenLater(["backbone.weight"], 2),
    healthy=lambda: UnfrozenLater([], 2),
)
