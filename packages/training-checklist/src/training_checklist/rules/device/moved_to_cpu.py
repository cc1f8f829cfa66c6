from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("moved"):
        yield mix.hit("a tensor was moved to the CPU")


RULE = Rule(
    id="device/moved-to-cpu",
    item="device",
    question="Does every tensor of a step stay where the others are?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("leave that out, or move it back with .to(x.device)"),
    faulty=lambda: example("moved", "cpu()", file="net.py", line=20, function="Net.forward", source="m = m.cpu()"),
    healthy=lambda: example(
        "asked", "cpu()", file="net.py", line=20, function="Net.forward", source="m = m.to(device)"
    ),
)
