from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.shared import SharedGroups
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(groups: SharedGroups, limits: Any) -> Iterator[Hit]:
    if groups.persons > 1 and groups.shared > limits.max_persons * groups.held:
        yield Hit(
            f"{groups.shared} of {groups.held} samples of {groups.split} are of {groups.name} that the training set "
            f"has others of: {groups.samples} samples of {groups.persons}",
            groups.place.beside(note=groups.name),
        )


RULE = Rule(
    id="data/persons-in-both-splits",
    item="limit_batches",
    question="Are other persons held out than those that are trained on?",
    why="a network that knows a person by their other samples is better on these than it will be on somebody new",
    severity=WARNING,
    evidence=SharedGroups,
    judge=judge,
    fix=Fix("split persons and not samples, as sklearn's GroupShuffleSplit does; leave it if they are always known"),
    faulty=lambda: SharedGroups("patients", "val", 40, 400, 90, 100),
    healthy=lambda: SharedGroups("patients", "val", 40, 400, 0, 100),
    thresholds={
        "max_persons": Threshold(0.5, "of the held-out samples: a few persons may have been counted twice on purpose")
    },
)
