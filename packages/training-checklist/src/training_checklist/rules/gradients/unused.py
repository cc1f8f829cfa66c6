from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import Missing, MissingGradients
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(missing: MissingGradients, limits: Any) -> Iterator[Hit]:
    if sum(len(group.names) for group in missing.groups) == missing.total:
        return
    for group in missing.groups:
        if group.how == "unused":
            yield Hit(
                f"{len(group.names)} of {missing.total} parameters get no gradient: {group.path}; unused: "
                "nothing that the loss is made of depends on it",
                Place(module=group.path, parameter=shown(group.names)),
                fix=Fix(f"use it, remove it, or freeze {group.path} with requires_grad_(False)"),
                severity=WARNING if group.meant else None,
            )


RULE = Rule(
    id="gradients/unused",
    item="gradients",
    question="Does every trainable parameter take part in computing the loss?",
    why="they stay as they are, and DDP raises for them",
    severity=FAILED,
    evidence=MissingGradients,
    judge=judge,
    fix=Fix("use it, remove it, or freeze it"),
    faulty=lambda: MissingGradients(4, [Missing("net.extra", ["net.extra.weight"], "unused")]),
    healthy=lambda: MissingGradients(4),
)
