from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Argument
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(argument: Argument, limits: Any) -> Iterator[Hit]:
    if argument.swallowed and argument.near:
        owner, name = argument.key.rpartition(".")[0], argument.near[0]
        what = f"{argument.key}={argument.value} is no parameter of {argument.callee}; did you mean {name}?"
        fix = Fix(overrides=(f"~{argument.key}", f"++{owner}.{name}={argument.value}"))
        yield Hit(what, argument.place, fix=fix)


RULE = Rule(
    id="config/almost-an-argument",
    item="config",
    question="Are the keys that a _target_ takes by **kwargs something else than misspelt parameters of it?",
    why="`**kwargs` takes it, and the argument stays as it is",
    severity=WARNING,
    evidence=Argument,
    judge=judge,
    fix=Fix("correct the name"),
    faulty=lambda: Argument("net.droput", "0.5", "parts.Net", False, True, ["dropout"]),
    healthy=lambda: Argument("net.note", "3", "parts.Net", False, True),
)
