from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, EndedRank
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, EndedRank):
        rank, stage = event.waiting
        yield Hit(
            f"rank {event.rank} {event.how}; it had come to {event.after}, and rank {rank} waits at {stage}",
            Place(rank=str(event.rank), note=f"after {event.after}"),
        )


RULE = Rule(
    id="distributed/rank-ended",
    item="distributed",
    question="Do the processes of all ranks run until training ends?",
    why="the others wait for it for half an hour, unless something ends them",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix("if nobody has killed it, memory may have run out (dmesg | tail -n 20)", items=("memory",)),
    faulty=lambda: Course(EndedRank(1, "was ended by SIGKILL", "the backward pass of batch 2 in epoch 0")),
    healthy=Course,
)
