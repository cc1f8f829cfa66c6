from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, FailedCollective
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, FailedCollective) and event.tested:
        yield Hit(
            f"a collective of rank {event.rank} failed after {event.after}: {event.error}; {event.others}",
            event.line.beside(rank=str(event.rank), batch=course.batch),
        )


RULE = Rule(
    id="distributed/collective-failed",
    item="distributed",
    question="Does every collective operation (such as all_reduce) of training succeed?",
    why="the network works, as its self-test shows: the ranks call different collectives, or one comes too late",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix(
        "call self.log(..., sync_dist=True), self.all_gather, metrics and torch.distributed on all ranks, in the same "
        "order"
    ),
    faulty=lambda: Course(
        FailedCollective(0, "the end of batch 2", "Timed out", 2, line=Place(file="a.py", line=3)), 2
    ),
    healthy=lambda: Course(FailedCollective(0, "rendezvous", "Connection refused", 2, tested=False)),
)
