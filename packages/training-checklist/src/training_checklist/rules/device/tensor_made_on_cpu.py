from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

ADVICE = "device=x.device), x being an input of the module; self.device in a LightningModule"


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("made"):
        yield mix.fixed(f"{mix.origin.name} makes its tensor on the CPU", f"{mix.origin.name}(..., {ADVICE}")


RULE = Rule(
    id="device/tensor-made-on-cpu",
    item="device",
    question="Is every tensor of a step made where the others are?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix(f"torch.ones(..., {ADVICE}"),
    faulty=lambda: example(
        "made", "torch.ones", file="net.py", line=20, function="Net.forward", source="m = torch.ones(8)"
    ),
    healthy=lambda: example(
        "asked", "ones", file="net.py", line=20, function="Net.forward", source="m = torch.ones(8, device=x.device)"
    ),
)
