from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import ComparedTensor
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(tensor: ComparedTensor, limits: Any) -> Iterator[Hit]:
    if tensor.read is None:
        raise CannotJudge("the loss has no gradient with respect to what it compares with")
    if tensor.filling is None or not tensor.unread or tensor.share == 1:
        return
    if tensor.share**tensor.read < limits.max_chance:
        yield Hit(
            f"the loss depends on {tensor.read} of {tensor.read + tensor.unread} numbers of {tensor.leaf}, and these "
            f"are all {tensor.filling:g}; the others differ",
            tensor.place.beside(loader="train_dataloader", note=tensor.leaf),
        )


RULE = Rule(
    id="network/targets-of-filling",
    item="trace",
    question="Does the loss compare with more than what stands for missing values?",
    why="it learns what missing values were filled with, and nothing of those that are there: a mask that chooses "
    "them is the wrong way round",
    severity=FAILED,
    evidence=ComparedTensor,
    judge=judge,
    fix=Fix("invert the mask where it is made, or where the loss takes it"),
    faulty=lambda: ComparedTensor("batch['target']", read=36, unread=412, filling=0.0, share=0.08),
    # Counts that are mostly 0, of which the loss takes a few.
    healthy=lambda: ComparedTensor("batch['target']", read=36, unread=412, filling=0.0, share=0.9),
    thresholds={
        "max_chance": Threshold(
            1e-4, "that as many numbers are all this one by chance, at its share of all: once in 10,000 batches"
        )
    },
)
