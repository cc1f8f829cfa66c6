from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Argument
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(argument: Argument, limits: Any) -> Iterator[Hit]:
    if argument.wanted:
        last = argument.key.rpartition(".")[2]
        fix = Fix(
            f"in a file without quotes: {last}: {argument.meant}", overrides=(f"{argument.key}={argument.meant}",)
        )
        why = f"{argument.why}; a text fails where it is used, or counts as true"
        yield Hit(
            f"{argument.key} is the text {argument.value!r}, not {argument.wanted}", argument.place, why=why, fix=fix
        )


RULE = Rule(
    id="config/text-for-value",
    item="config",
    question="Is every number, bool, null and list in the config written as such, and not as a string?",
    why="a text fails where it is used, or counts as true",
    severity=FAILED,
    evidence=Argument,
    judge=judge,
    fix=Fix("write it without quotes"),
    faulty=lambda: Argument("optimizer.lr", "1e-3", wanted="a number", meant="1e-3", why="it looks like one"),
    healthy=lambda: Argument("optimizer.lr", "0.001"),
)
