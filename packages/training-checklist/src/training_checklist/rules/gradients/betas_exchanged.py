from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Betas
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(betas: Betas, limits: Any) -> Iterator[Hit]:
    if betas.first > betas.second:
        yield Hit(
            f"{betas.optimizer} has betas=({betas.first:g}, {betas.second:g}): gradients are averaged for longer than "
            f"their squares",
            betas.place,
        )


RULE = Rule(
    id="gradients/betas-exchanged",
    item="gradients",
    question="Is Adam's beta1 smaller than its beta2?",
    why="steps are stable while squares are averaged for longer than gradients (Kingma and Ba 2015: beta1 is less than "
    "the root of beta2); the other way round they go on in old directions",
    severity=WARNING,
    evidence=Betas,
    judge=judge,
    fix=Fix("betas=(0.9, 0.999)", overrides=("optimizer.betas=[0.9,0.999]",)),
    faulty=lambda: Betas("Adam", 0.999, 0.9),
    healthy=lambda: Betas("Adam", 0.5, 0.999),
)
