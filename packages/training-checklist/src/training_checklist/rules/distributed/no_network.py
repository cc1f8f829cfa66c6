from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, FailedCollective
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule
from training_checklist.rules.distributed.wrong_collective import bare_test

INTERFACES = "with several network interfaces GLOO_SOCKET_IFNAME=lo or NCCL_SOCKET_IFNAME name the right one"


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, FailedCollective) and not event.tested:
        yield Hit(
            f"the ranks cannot talk to each other: {event.error}",
            Place(rank=str(event.rank), note=event.after),
            fix=Fix(f"{bare_test(event.world_size)}; {INTERFACES}"),
        )


RULE = Rule(
    id="distributed/no-network",
    item="distributed",
    question="Can the ranks communicate with each other?",
    why="nothing can be trained in several processes without a network between them",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix(INTERFACES),
    faulty=lambda: Course(FailedCollective(0, "rendezvous", "Connection refused", 2, tested=False)),
    healthy=lambda: Course(FailedCollective(0, "the end of batch 2", "Timed out", 2), 2),
)
