from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.whole_training import Lives, UnitLives
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(seen: UnitLives, limits: Any) -> Iterator[Hit]:
    known = [lives for lives in seen.functions if lives.rows >= limits.died_rows]
    if not known:
        raise CannotJudge(f"no relu, tanh or sigmoid has been given {limits.died_rows} inputs at both ends")
    for lives in known:
        if lives.died > limits.died_share * lives.total:
            yield Hit(
                f"{lives.died} of {lives.total} units of {lives.name} that had a slope at the start have one of "
                f"exactly 0 for each of {lives.rows} inputs from step {lives.step} on",
                lives.place,
            )


RULE = Rule(
    id="watch/units-died",
    item="watch",
    question="Do the units that lived at the start of training live at its end?",
    why="such a unit gives the same for all inputs, nothing is trained through it, and it does not come back; steps "
    "that were too long fit, and weights or inputs that grow",
    severity=WARNING,
    evidence=UnitLives,
    judge=judge,
    fix=Fix("a lower learning rate, warm-up or clipping; the figure shows when they died", items=("learning",)),
    faulty=lambda: UnitLives([Lives("relu", Place(module="net"), 60, 58, 64, 640, 900)]),
    healthy=lambda: UnitLives([Lives("relu", Place(module="net"), 60, 12, 64, 640, 900)]),
    thresholds={
        "died_share": Threshold(
            0.5,
            "of a function's units: up to 0.18 were measured over twelve healthy networks (convolutions, two to twelve "
            "layers of ReLU, tanh, sigmoid, with norms and without, by Adam and SGD); a half is also what SageMaker "
            "Debugger's DeadRelu has",
        ),
        "died_rows": Threshold(
            100, "inputs: a unit that has a slope for 5 % of them has none for all of 100 with a probability of 0.6 %"
        ),
    },
    symptom=True,
)
