from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("generator"):
        yield mix.hit("its generator is one of the CPU")


RULE = Rule(
    id="device/generator-of-cpu",
    item="device",
    question="Do random numbers come from a generator of the device?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("make it on the device: torch.Generator(device=self.device)"),
    faulty=lambda: example(
        "generator",
        "its generator",
        file="net.py",
        line=20,
        function="Net.forward",
        source="torch.randn(8, device=x.device, generator=g)",
    ),
    healthy=lambda: example(
        "asked", "randn", file="net.py", line=20, function="Net.forward", source="torch.randn_like(x)"
    ),
)
