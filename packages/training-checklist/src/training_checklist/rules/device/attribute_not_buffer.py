from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("attribute"):
        yield mix.fixed(
            f"{mix.origin.name} is a plain attribute and no buffer",
            f'self.register_buffer("{mix.attribute}", ..., persistent=False) instead of self.{mix.attribute} = ...',
        )


RULE = Rule(
    id="device/attribute-not-buffer",
    item="device",
    question="Do all tensors that a module keeps move with it?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("register it as a buffer: self.register_buffer(name, tensor, persistent=False)"),
    faulty=lambda: example("attribute", "Net.positions", parameter="Net.positions"),
    healthy=lambda: example("asked", "positions"),
)
