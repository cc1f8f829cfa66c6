from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import MissingValue
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(value: MissingValue, limits: Any) -> Iterator[Hit]:
    given = "VALUE" if value.default is None else value.default
    advice = "" if value.default is None else f"{given} is the default of {value.of}"
    if value.key:
        fix = Fix(advice, overrides=(f"{value.key}={given}",))
        yield Hit(f"{value.key} is ???: nothing has given it a value", value.place, fix=fix)


RULE = Rule(
    id="config/missing-value",
    item="config",
    question="Has every mandatory value (???) been given?",
    why="the run ends as soon as the value is read",
    severity=FAILED,
    evidence=MissingValue,
    judge=judge,
    fix=Fix("give it one"),
    faulty=lambda: MissingValue("data.batch_size", "32", "parts.Data"),
    healthy=lambda: MissingValue(""),
)
