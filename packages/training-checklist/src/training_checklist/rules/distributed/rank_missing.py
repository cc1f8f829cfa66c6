from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, MissingRank
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, MissingRank):
        rank, stage = event.waiting
        yield Hit(
            f"rank {event.rank} of {event.world_size} has not started: {rank} waited for it at {stage}",
            Place(rank=str(event.rank), note="before its callbacks were built"),
        )


RULE = Rule(
    id="distributed/rank-missing",
    item="distributed",
    question="Do all ranks start?",
    why="a process group forms when all ranks are there",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix(
        "this gives a slow start more time; look at what the rank has printed",
        overrides=("checks.distributed.rendezvous_timeout=120",),
    ),
    faulty=lambda: Course(MissingRank(1, 2, (0, "rendezvous"))),
    healthy=Course,
)
