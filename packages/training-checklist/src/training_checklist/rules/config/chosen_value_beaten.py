from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import BeatenValue
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(value: BeatenValue, limits: Any) -> Iterator[Hit]:
    if value.chosen:
        fix = Fix(f"the command line wins; for good: {value.order}", overrides=(f"{value.key}={value.wanted}",))
        yield Hit(f"{value.key} is {value.value}, not {value.wanted} as {value.by} says", value.place, fix=fix)


RULE = Rule(
    id="config/chosen-value-beaten",
    item="config",
    question="Does each value that the command line or an experiment sets end up in the composed config?",
    why="a file that nobody chose overrules it without a word",
    severity=FAILED,
    evidence=BeatenValue,
    judge=judge,
    fix=Fix("order the defaults list so that what is chosen comes last"),
    faulty=lambda: BeatenValue("data.batch_size", "16", "128", "experiment=base", True, "put _self_ above it"),
    healthy=lambda: BeatenValue("data.batch_size", "64", "16", "conf/train.yaml", False, ""),
)
