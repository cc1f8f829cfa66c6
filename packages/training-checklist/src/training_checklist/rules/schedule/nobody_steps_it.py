from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Calls
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(calls: Calls, limits: Any) -> Iterator[Hit]:
    if calls.manual and not calls.within + calls.by_hand:
        yield Hit(
            f"nobody has stepped {calls.schedule} in two epochs: with manual optimization Lightning does not",
            Place(note=f"lr_scheduler {calls.schedule}"),
        )


RULE = Rule(
    id="schedule/nobody-steps-it",
    item="learning",
    question="Does the project call lr_scheduler.step() itself under manual optimization?",
    why="the learning rate stays what it is at first, such as that of the first step of a warm-up",
    severity=FAILED,
    evidence=Calls,
    judge=judge,
    fix=Fix("self.lr_schedulers().step() in training_step, or in on_train_epoch_end, as its length is counted"),
    faulty=lambda: Calls("LambdaLR()", turns=0, within=0, by_hand=0, manual=True),
    healthy=lambda: Calls("LambdaLR()", turns=0, within=0, by_hand=16, manual=True),
)
