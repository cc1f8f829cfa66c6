from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Apart, Course
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

ENDED = Fix(
    "give all ranks as many batches (DistributedSampler, drop_last=True), and let all decide alike when to stop"
)


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if not isinstance(event, Apart):
        return
    what = "the ranks run different numbers of batches" if event.ended else "the ranks have parted"
    place = event.hooks.beside(rank=str(event.rank), batch=course.batch)
    yield Hit(
        f"{what}: {event.told}",
        place.beside(loader="train_dataloader") if event.ended else place,
        fix=ENDED if event.ended else None,
    )


RULE = Rule(
    id="distributed/ranks-part",
    item="distributed",
    question="Are all ranks at the same point of training whenever they synchronise?",
    why="gradients are averaged in each backward pass: a rank waits for ever, or gets those of another batch",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix("take the same way on all ranks; to skip a batch, return a loss times 0 with all parameters in it"),
    faulty=lambda: Course(Apart(1, "rank 0 is at the backward pass of batch 2; rank 1 at the end of epoch 0", True), 2),
    healthy=Course,
)
