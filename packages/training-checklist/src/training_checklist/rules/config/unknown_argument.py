from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Argument
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(argument: Argument, limits: Any) -> Iterator[Hit]:
    if argument.fits or argument.swallowed:
        return
    if argument.near:
        hint = f"; did you mean {' or '.join(argument.near)}?"
    else:
        hint = f"; it takes {', '.join(argument.takes[:6])}" + (" and more" if len(argument.takes) > 6 else "")
    what = f"{argument.key}={argument.value} is no argument of {argument.callee}{hint}"
    yield Hit(what, argument.place, fix=Fix(overrides=(f"~{argument.key}",)))


RULE = Rule(
    id="config/unknown-argument",
    item="config",
    question="Is every key beside a _target_ an argument of it?",
    why="calling it raises a TypeError",
    severity=FAILED,
    evidence=Argument,
    judge=judge,
    fix=Fix("take it out"),
    faulty=lambda: Argument("net.out_feature", "2", "torch.nn.Linear", False, near=["out_features"]),
    healthy=lambda: Argument("net.out_features", "2", "torch.nn.Linear"),
)
