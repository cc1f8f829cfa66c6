from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Plateau
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(schedule: Plateau, limits: Any) -> Iterator[Hit]:
    if schedule.wanted is not None and schedule.mode != schedule.wanted:
        better = "better" if schedule.wanted == "max" else "worse"
        yield Hit(
            f"ReduceLROnPlateau has mode={schedule.mode}, but more of {schedule.metric} is {better}",
            Place(note=f"ReduceLROnPlateau(mode={schedule.mode!r}) on {schedule.metric}"),
            fix=Fix(f'mode="{schedule.wanted}" where it is made'),
        )


RULE = Rule(
    id="schedule/waits-for-the-worse",
    item="learning",
    question="Is the mode of ReduceLROnPlateau right for its metric (min for a loss)?",
    why="it lowers the learning rate as long as training gets on",
    severity=FAILED,
    evidence=Plateau,
    judge=judge,
    fix=Fix("the other mode where it is made"),
    faulty=lambda: Plateau("val/accuracy", "min", "max"),
    healthy=lambda: Plateau("val/loss", "min", "min"),
)
