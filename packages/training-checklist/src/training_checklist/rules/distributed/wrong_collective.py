from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, WrongCollective
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule

TEST = "-m training_checklist.experiments.distributed.network"


def bare_test(world_size: int) -> str:
    """Return the command that tests the network without the project."""
    return f"torchrun --nproc-per-node {world_size} {TEST} does the same without this project"


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, WrongCollective):
        yield Hit(event.what, Place(rank=str(event.rank), note=event.stage), fix=Fix(bare_test(event.world_size)))


RULE = Rule(
    id="distributed/wrong-collective",
    item="distributed",
    question="Does every collective operation (such as all_reduce) give the right value?",
    why="gradients would be averaged as wrongly",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix(bare_test(2)),
    faulty=lambda: Course(WrongCollective(0, "all-reduce of the network self-test", "all-reduce of 1 to 2 gives 9", 2)),
    healthy=Course,
)
