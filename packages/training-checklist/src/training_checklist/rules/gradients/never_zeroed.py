from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Effect, OptimizerEffects
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(seen: OptimizerEffects, limits: Any) -> Iterator[Hit]:
    if len(seen.left_over) < 3:
        raise CannotJudge("gradients of one step can only be left over in the next: three steps tell")
    later = seen.left_over[1:]
    count, steps = sum(later), len(later)
    # Most of them: two batches in a row that share a sum may be meant, which is one step in two.
    if 2 * count > steps:
        often, of_all = ("never", "all") if count == steps else ("rarely", str(count))
        yield Hit(
            f"gradients are {often} zeroed: in {of_all} of {steps} steps those of the step before are still there",
            seen.zeroing,
        )


RULE = Rule(
    id="gradients/never-zeroed",
    item="gradients",
    question="Is zero_grad called between two optimizer steps?",
    why="a step follows the sum of the gradients of steps before it, which belong to other weights",
    severity=FAILED,
    evidence=OptimizerEffects,
    judge=judge,
    fix=Fix("optimizer.zero_grad() before each backward pass; to accumulate: trainer.accumulate_grad_batches=4"),
    faulty=lambda: OptimizerEffects("Adam", [Effect(1.0, 1.0, changed=True)] * 4, [False, True, True, False]),
    healthy=lambda: OptimizerEffects("Adam", [Effect(1.0, 1.0, changed=True)] * 3, [False, True, False]),
)
