from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import Decays
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(seen: Decays, limits: Any) -> Iterator[Hit]:
    if seen.decayed:
        yield Hit(
            f"weight decay of {seen.rate:g} pulls at {len(seen.decayed)} {seen.kind}, while {len(seen.exempt)} others "
            f"are exempt from it: {shown(seen.exempt)}",
            seen.place.beside(parameter=shown(seen.decayed)),
        )


RULE = Rule(
    id="gradients/decayed-by-oversight",
    item="gradients",
    question="Are either all or none of the biases and norm weights exempt from weight decay?",
    why="what chooses them, such as a list of names, does not meet them all",
    severity=WARNING,
    evidence=Decays,
    judge=judge,
    fix=Fix("choose them by what they are: parameters with fewer than two dimensions"),
    faulty=lambda: Decays("weights of norms", ["norm1.weight"], ["ln_2.weight"], 0.1),
    healthy=lambda: Decays("weights of norms", ["norm1.weight", "ln_2.weight"], [], 0.0),
)
