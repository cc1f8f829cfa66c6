from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("batch"):
        yield mix.hit(f"{mix.origin.name} is left behind when the batch is moved")


RULE = Rule(
    id="device/batch-left-behind",
    item="device",
    question="Are all parts of a batch moved to the device?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("move it in transfer_batch_to_device, or give its class a method to(device) that does"),
    faulty=lambda: example("batch", "batch['labels'].values", parameter="batch['labels'].values"),
    healthy=lambda: example("asked", "to"),
)
