from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("numbered"):
        yield Hit(f"{mix.operation} puts a tensor on {mix.origin.name}, and the step is on cuda:0", mix.used)


RULE = Rule(
    id="device/numbered-accelerator",
    item="device",
    question="Is the accelerator taken from a tensor or the module, and not by its number?",
    why="the accelerator is named by its number: elsewhere there is none of it, or it is another process's",
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("device=x.device, x being an input of the module"),
    faulty=lambda: example(
        "numbered", "cuda:1", file="net.py", line=20, function="Net.forward", source="m = m.cuda(1)"
    ),
    healthy=lambda: example(
        "asked", "cuda", file="net.py", line=20, function="Net.forward", source="m = m.to(x.device)"
    ),
)
