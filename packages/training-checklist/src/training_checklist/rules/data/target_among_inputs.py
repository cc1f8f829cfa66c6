from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import TargetCopies
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(copies: TargetCopies, limits: Any) -> Iterator[Hit]:
    found = [(name, rest) for name, rest in copies.columns.items() if rest < limits.rounding]
    # Of a single column it is the task itself, as in a demonstration of a straight line.
    if found and len(copies.columns) > 1:
        names = ", ".join(name for name, _ in found[:3])
        yield Hit(
            f"{names} is {copies.target} itself, up to scale and shift, in all of {copies.samples} samples",
            copies.place.beside(note=found[0][0]),
        )
        return
    ranked = sorted(copies.columns.items(), key=lambda pair: pair[1])
    # Of the days before, the last one and the one before it are about as near; what follows from the target is alone.
    if len(ranked) > 1 and ranked[0][1] < min(limits.nearly, ranked[1][1] * limits.alone):
        name, rest = ranked[0]
        yield Hit(
            f"{name} alone tells {1 - rest:.2%} of the variance of {copies.target}, and no other column more than "
            f"{1 - ranked[1][1]:.0%}",
            copies.place.beside(note=name),
            "what is computed from the answer is not there where the answer is to be foretold",
            Fix("take the column out of the inputs, unless it is known before the target is"),
        )


RULE = Rule(
    id="data/target-among-inputs",
    item="limit_batches",
    question="Is the target kept out of the inputs?",
    why="the network copies the answer from its input; where the answer is not known it has nothing to copy",
    severity=WARNING,
    evidence=TargetCopies,
    judge=judge,
    fix=Fix("take the column out of the inputs"),
    faulty=lambda: TargetCopies("batch[1]", {"batch[0][:, 0]": 0.98, "batch[0][:, 1]": 0.0}, 64),
    healthy=lambda: TargetCopies("batch[1]", {"batch[0][:, 0]": 0.3, "batch[0][:, 1]": 0.04}, 64),
    thresholds={
        "rounding": Threshold(
            1e-6,
            "of the target's variance is left by the column: float32 keeps 7 digits, and a sum of squares loses one",
        ),
        "nearly": Threshold(0.02, "of the variance is left: a correlation of 0.99"),
        "alone": Threshold(
            0.1, "of what the next column leaves; days before a day leave at most three times as much as the one after"
        ),
    },
)
