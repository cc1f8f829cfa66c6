from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, LoneCollective
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, LoneCollective):
        what = f"a collective that rank {event.rank} alone has called: {event.told}"
        yield Hit(what, event.line.beside(rank=str(event.rank), batch=course.batch))


RULE = Rule(
    id="distributed/lone-collective",
    item="distributed",
    question="Does every rank call each collective operation (such as all_reduce)?",
    why="it waits for ever, or is answered by another collective of the others, with wrong values",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix(
        "call self.log(..., sync_dist=True), self.all_gather, metrics and torch.distributed on all ranks, not under "
        "`if rank == 0`"
    ),
    faulty=lambda: Course(
        LoneCollective(0, Place(file="net.py", line=7), "rank 1 is at the backward pass of batch 2"), 2
    ),
    healthy=Course,
)
