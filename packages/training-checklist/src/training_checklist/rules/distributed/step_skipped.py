from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, SkippedStep
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, SkippedStep):
        yield Hit(
            f"rank {event.rank} skips batch {course.batch} after {event.steps} optimizer steps, because its "
            f"training_step returns None; {event.others}",
            event.step.beside(rank=str(event.rank), batch=course.batch),
        )


RULE = Rule(
    id="distributed/step-skipped",
    item="distributed",
    question="Does every rank take part in every optimizer step?",
    why="gradients are averaged in each backward pass: the ranks would disagree about the step from here on",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix("take the same way on all ranks: return a loss times 0 with all parameters in it, not None"),
    faulty=lambda: Course(SkippedStep(1, 2, "rank 0 is at the backward pass"), 2),
    healthy=Course,
)
