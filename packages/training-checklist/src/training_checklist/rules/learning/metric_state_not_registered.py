from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import PlainState
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(state: PlainState, limits: Any) -> Iterator[Hit]:
    if state.changed:
        names = ", ".join(state.changed[:3])
        yield Hit(
            f"update() of {state.path} changes {names}, which add_state has not made: reset() leaves it as it is",
            state.place.beside(module=f"{state.path} ({state.type})", note=names),
        )


RULE = Rule(
    id="learning/metric-state-not-registered",
    item="learning",
    question="Does each metric keep what it accumulates in states made by add_state?",
    why="its value mixes all epochs, and the sanity check; several processes do not add it up",
    severity=FAILED,
    evidence=PlainState,
    judge=judge,
    fix=Fix('self.add_state("features", default=[], dist_reduce_fx="cat") in the metric\'s __init__'),
    faulty=lambda: PlainState("neighbours", "Neighbours", ["features"]),
    healthy=lambda: PlainState("neighbours", "Neighbours", []),
)
