from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.devices import WHY, AcceleratorStep, example
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(step: AcceleratorStep, limits: Any) -> Iterator[Hit]:
    for mix in step.of("datamodule"):
        yield mix.fixed(
            f"{mix.origin.name} is a tensor of the CPU",
            f"move it where it is used: self.{mix.attribute}.to(x.device), x being a tensor of the batch",
        )


RULE = Rule(
    id="device/tensor-of-datamodule",
    item="device",
    question="Are the tensors that the DataModule keeps moved where they are used?",
    why=WHY,
    severity=FAILED,
    evidence=AcceleratorStep,
    judge=judge,
    fix=Fix("move it where it is used: .to(x.device), x being a tensor of the batch"),
    faulty=lambda: example("datamodule", "Data.mean", parameter="Data.mean"),
    healthy=lambda: example("asked", "mean"),
)
