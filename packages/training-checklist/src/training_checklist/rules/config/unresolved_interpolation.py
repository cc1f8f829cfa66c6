from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Unresolved
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(found: Unresolved, limits: Any) -> Iterator[Hit]:
    if not found.key:
        return
    if found.variable:
        fix = Fix(f"set the variable {found.variable} before the command")
    elif found.near:
        fix = Fix("write ${" + found.near[0] + "}")
    else:
        fix = Fix(overrides=(f"{found.key}=VALUE",))
    yield Hit(f"{found.key}={found.raw} does not resolve: {found.message}", found.place, fix=fix)


RULE = Rule(
    id="config/unresolved-interpolation",
    item="config",
    question="Does every interpolation ${...} resolve to a value?",
    why="the run ends as soon as the value is read",
    severity=FAILED,
    evidence=Unresolved,
    judge=judge,
    fix=Fix("give the key a value"),
    faulty=lambda: Unresolved("lr", "${optimzer.lr}", "Interpolation key not found", near=["optimizer.lr"]),
    healthy=lambda: Unresolved("", "", ""),
)
