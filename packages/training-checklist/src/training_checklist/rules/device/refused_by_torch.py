from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("torch"):
        yield Hit(mix.origin.name, mix.used)


RULE = Rule(
    id="device/refused-by-torch",
    item="device",
    question="Do the inputs of torch's own modules lie on one device?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("make the tensor where the others are: device=x.device, x being an input of the module"),
    faulty=lambda: example("torch", "Input and hidden tensors are not at the same device"),
    healthy=lambda: example("asked", "zeros"),
)
