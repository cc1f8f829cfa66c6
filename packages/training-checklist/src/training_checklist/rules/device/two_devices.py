from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("unknown"):
        yield mix.hit("a tensor of the CPU was made before the step")


RULE = Rule(
    id="device/two-devices",
    item="device",
    question="Do all tensors of an operation lie on one device?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("move it first: tensor.to(x.device), x being an input of the module"),
    faulty=lambda: example("unknown", "a tensor of the CPU"),
    healthy=lambda: example("asked", "a tensor"),
)
