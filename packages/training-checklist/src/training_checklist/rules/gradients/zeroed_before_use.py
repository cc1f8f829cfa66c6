from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Effect, OptimizerEffects
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(seen: OptimizerEffects, limits: Any) -> Iterator[Hit]:
    if seen.several:
        raise CannotJudge("another optimizer's loss may leave gradients in these weights, which are zeroed on purpose")
    # A step may be left out for a reason, such as a loss that is not finite; most of them for none.
    if 2 * seen.discarded > seen.backwards:
        yield Hit(
            f"the gradients of {seen.discarded} of {seen.backwards} backward passes are zeroed before any step has "
            "used them",
            seen.zeroing,
        )


RULE = Rule(
    id="gradients/zeroed-before-use",
    item="gradients",
    question="Does an optimizer step come between each backward and the next zero_grad?",
    why="what is to be accumulated over several batches is the last one's gradient alone",
    severity=FAILED,
    evidence=OptimizerEffects,
    judge=judge,
    fix=Fix("optimizer.zero_grad() after optimizer.step(), and not before each backward pass"),
    faulty=lambda: OptimizerEffects("Adam", [Effect(1.0, 1.0, changed=True)] * 3, backwards=10, discarded=7),
    healthy=lambda: OptimizerEffects("Adam", [Effect(1.0, 1.0, changed=True)] * 3, backwards=10, discarded=1),
)
