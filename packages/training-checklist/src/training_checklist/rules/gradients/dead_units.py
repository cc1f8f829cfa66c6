from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Activations, Units
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(seen: Activations, limits: Any) -> Iterator[Hit]:
    known = [units for units in seen.functions if units.rows >= limits.dead_rows]
    if not known:
        raise CannotJudge(f"no relu, tanh or sigmoid has been given {limits.dead_rows} inputs")
    for units in known:
        if units.dead > limits.dead_share * units.total:
            yield Hit(
                f"{units.dead} of {units.total} units of {units.name} have a slope of exactly 0 "
                f"for each of {units.rows} inputs",
                units.place,
            )


RULE = Rule(
    id="gradients/dead-units",
    item="gradients",
    question="Do most units of every activation function pass on a gradient (are few of them dead)?",
    why="such a unit gives the same for all inputs, and nothing is trained through it; a bias or an input far from 0, "
    "or a step that was too long, fits",
    severity=WARNING,
    evidence=Activations,
    judge=judge,
    fix=Fix("normalise the inputs, or look at the initialisation; trace shows the ranges", items=("trace",)),
    faulty=lambda: Activations([Units("relu", Place(module="net"), 60, 64, 320)]),
    healthy=lambda: Activations([Units("relu", Place(module="net"), 36, 64, 320)]),
    thresholds={
        "dead_share": Threshold(
            0.9,
            "of a function's units: up to 0.56 were measured in plain ReLU networks of 8 to 16 layers, 0.38 in a graph "
            "network, and at most 0.31 with norms or Kaiming's initialisation; so 0.5, as SageMaker Debugger's "
            "DeadRelu has it, is no fault yet",
        ),
        "dead_rows": Threshold(
            100, "inputs: a unit that has a slope for 5 % of them has none for all of 100 with a probability of 0.6 %"
        ),
    },
    symptom=True,
)
