from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Unheld
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(schedule: Unheld, limits: Any) -> Iterator[Hit]:
    if schedule.is_lost:
        yield Hit("a schedule was made for the optimizer, but nobody has it", schedule.place)


RULE = Rule(
    id="schedule/not-returned",
    item="learning",
    question="Does configure_optimizers return every lr_scheduler that it makes?",
    why="it is never stepped: the learning rate stays what it is at first",
    severity=FAILED,
    evidence=Unheld,
    judge=judge,
    fix=Fix('return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}'),
    faulty=lambda: Unheld(True),
    healthy=lambda: Unheld(False),
)
