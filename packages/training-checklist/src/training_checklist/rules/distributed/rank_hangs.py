from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, HungRank
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

LONGER = 6  # times as long, for a rank that is only slow


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, HungRank):
        yield Hit(
            f"rank {event.rank} has not come to {event.stage} within {event.seconds:g} s; "
            f"it is still after {event.after}",
            event.line.beside(rank=str(event.rank), note=event.calls or f"after {event.after}"),
            fix=Fix(
                "this gives it more time, if it is only slow; do less there, or the same on all ranks",
                overrides=(f"checks.distributed.{event.setting}={LONGER * event.seconds:g}",),
            ),
        )


RULE = Rule(
    id="distributed/rank-hangs",
    item="distributed",
    question="Does every rank reach the next step within the time-out?",
    why="the others wait for it in the next collective, for half an hour unless something ends them",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix("do less there, or the same on all ranks"),
    faulty=lambda: Course(HungRank(1, "the backward pass", "the start of batch 2", 20, "timeout")),
    healthy=Course,
)
