from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("parameter"):
        yield mix.fixed(
            f"the parameter {mix.origin.name} is not registered",
            f"self.{mix.attribute} = nn.ParameterList(...), which registers what it holds",
        )


RULE = Rule(
    id="device/parameter-not-registered",
    item="device",
    question="Is every parameter that a step uses registered?",
    why=f"{WHY}; nor is it in parameters() or state_dict(), so that it is never trained or saved",
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("keep parameters in nn.ParameterList or nn.ParameterDict"),
    faulty=lambda: example("parameter", "Net.scales[0]", parameter="Net.scales[0]"),
    healthy=lambda: example("asked", "scales"),
)
