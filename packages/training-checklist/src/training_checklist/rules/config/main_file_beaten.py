from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import BeatenValue
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(value: BeatenValue, limits: Any) -> Iterator[Hit]:
    if not value.chosen:
        fix = Fix(f"move _self_ to the end of the defaults list in {value.by}, or remove the value there")
        yield Hit(f"{value.key} is {value.value}, not {value.wanted} as {value.by} says", value.place, fix=fix)


RULE = Rule(
    id="config/main-file-beaten",
    item="config",
    question="Does each value of the main config file end up in the composed config?",
    why="the value in the main file has no effect, whichever it is",
    severity=WARNING,
    evidence=BeatenValue,
    judge=judge,
    fix=Fix("move _self_ to the end of the defaults list"),
    faulty=lambda: BeatenValue("data.batch_size", "64", "16", "conf/train.yaml", False, ""),
    healthy=lambda: BeatenValue("data.batch_size", "16", "128", "experiment=base", True, ""),
)
