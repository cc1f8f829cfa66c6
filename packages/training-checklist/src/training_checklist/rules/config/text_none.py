from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import NoneText
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(text: NoneText, limits: Any) -> Iterator[Hit]:
    if text.key:
        yield Hit(f"{text.key} is the text 'None'", text.place, fix=Fix(overrides=(f"{text.key}=null",)))


RULE = Rule(
    id="config/text-none",
    item="config",
    question="Is an empty value written as null, and not as None, which YAML reads as a string?",
    why="nothing is written as null; the text None is a value like any other, and true",
    severity=WARNING,
    evidence=NoneText,
    judge=judge,
    fix=Fix("write null"),
    faulty=lambda: NoneText("scheduler"),
    healthy=lambda: NoneText(""),
)
