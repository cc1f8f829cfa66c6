from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.ranks import Course, UnusedParameters
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

LISTED = 5


def judge(course: Course, limits: Any) -> Iterator[Hit]:
    event = course.event
    if isinstance(event, UnusedParameters):
        yield Hit(
            f"{len(event.names)} of {event.total} parameters got no gradient: {listed(event.names)}",
            event.step.beside(rank=str(event.rank), batch=course.batch, parameter=", ".join(event.names[:LISTED])),
        )


def listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


RULE = Rule(
    id="distributed/unused-parameters",
    item="distributed",
    question="Does every parameter get a gradient in every step, as DDP demands?",
    why="the strategy waits for the gradient of every parameter: the next step raises 'Expected to have finished "
    "reduction', or another rank waits for this one",
    severity=FAILED,
    evidence=Course,
    judge=judge,
    fix=Fix(
        "or use them in the loss, or freeze them with requires_grad_(False)",
        overrides=("trainer.strategy=ddp_find_unused_parameters_true",),
    ),
    faulty=lambda: Course(UnusedParameters(0, ["extra.weight"], 8), 0),
    healthy=Course,
)
