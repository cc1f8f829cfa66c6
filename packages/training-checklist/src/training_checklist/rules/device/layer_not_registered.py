from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("layer"):
        yield mix.fixed(
            f"{mix.origin.name.partition(' ')[0]} is not registered as a submodule",
            f"keep layers in nn.ModuleList or nn.ModuleDict: self.{mix.attribute} = nn.ModuleList(...)",
        )


RULE = Rule(
    id="device/layer-not-registered",
    item="device",
    question="Is every layer that a step uses a submodule?",
    why=f"{WHY}; nor is it in parameters() or state_dict(), so that it is never trained or saved",
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("keep layers in nn.ModuleList or nn.ModuleDict"),
    faulty=lambda: example("layer", "Net.extra[0] (Linear)", parameter="Net.extra[0] (Linear)"),
    healthy=lambda: example("asked", "extra"),
)
