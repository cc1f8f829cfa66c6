from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import Length
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(length: Length, limits: Any) -> Iterator[Hit]:
    if length.max_epochs > 1 and length.max_steps < length.steps:
        yield Hit(
            f"max_steps={length.max_steps} ends training in its first epoch, which has {length.steps} steps; "
            f"max_epochs={length.max_epochs} is asked for",
            Place(note=f"Trainer(max_steps={length.max_steps}, max_epochs={length.max_epochs})"),
        )


RULE = Rule(
    id="learning/ends-in-the-first-epoch",
    item="learning",
    question="Does max_steps allow more than the first of several epochs?",
    why="whichever limit comes first ends the run: most samples are never seen, and no epoch is validated as a whole",
    severity=WARNING,
    evidence=Length,
    judge=judge,
    fix=Fix("max_steps=-1, or max_epochs=1 where so short a run is meant"),
    faulty=lambda: Length(50, 8, 120),
    healthy=lambda: Length(5000, 80, 120),
)
