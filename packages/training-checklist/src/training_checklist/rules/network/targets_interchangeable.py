from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import ComparedTensor
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(tensor: ComparedTensor, limits: Any) -> Iterator[Hit]:
    if not tensor.belongs:
        yield Hit(
            f"the loss depends on {tensor.leaf}, and it is the same whichever sample an entry of it belongs to"
            f"{f': {tensor.meeting}' if tensor.meeting else ''}",
            tensor.place.beside(loader="train_dataloader", note=tensor.leaf),
        )


RULE = Rule(
    id="network/targets-interchangeable",
    item="trace",
    question="Does it matter which sample a target belongs to?",
    why="each answer is compared with the targets of all samples, as where (B, 1) is broadcast against (B,): the best "
    "answer is one for all",
    severity=FAILED,
    evidence=ComparedTensor,
    judge=judge,
    fix=Fix("give both one shape before they are compared; print the shape of the loss before its mean"),
    faulty=lambda: ComparedTensor("batch['target']", belongs=False),
    healthy=lambda: ComparedTensor("batch['target']", belongs=True),
)
