from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, SlowPreparation
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, SlowPreparation):
        place = event.line.beside(rank=str(event.rank), note=event.calls)
        yield Hit(f"prepare_data takes longer than {event.seconds:g} s", place)


RULE = Rule(
    id="distributed/preparation-too-slow",
    item="distributed",
    question="Is prepare_data done before the time-out of the other ranks?",
    why="the other ranks wait for it, as long as it takes",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix(
        "this gives it more time; a download can be done once without this item",
        overrides=("checks.distributed.prepare_timeout=3600",),
    ),
    faulty=lambda: Course(SlowPreparation(0, 300)),
    healthy=Course,
)
