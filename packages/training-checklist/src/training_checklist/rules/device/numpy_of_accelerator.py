from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("numpy"):
        yield Hit(f"{mix.origin.name} is asked of a tensor of the accelerator", mix.used)


RULE = Rule(
    id="device/numpy-of-accelerator",
    item="device",
    question="Are tensors copied to the CPU before NumPy gets them?",
    why="on an accelerator this line ends with an error: NumPy reads memory of the CPU only",
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("copy it first: tensor.detach().cpu().numpy()"),
    faulty=lambda: example(
        "numpy", "numpy()", file="net.py", line=20, function="Net.forward", source="seen = x.numpy()"
    ),
    healthy=lambda: example(
        "asked", "cpu()", file="net.py", line=20, function="Net.forward", source="seen = x.to(device)"
    ),
)
