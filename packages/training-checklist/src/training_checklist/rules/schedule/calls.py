from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import Calls
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(calls: Calls, limits: Any) -> Iterator[Hit]:
    if not calls.turns:
        return
    by = f"Lightning has given {calls.schedule} {calls.turns} turns to be stepped"
    if calls.by_hand:
        yield Hit(f"{by}, and the project's own code has stepped it {calls.by_hand} times beside them", calls.place)
    if calls.within != calls.turns:
        yield Hit(f"{by}, and lr_scheduler_step has called its step() {calls.within} times", calls.place)


RULE = Rule(
    id="schedule/calls",
    item="learning",
    question="Is the lr_scheduler stepped exactly as often as its interval and frequency say?",
    why="it goes through its rates at another speed than interval and frequency say",
    severity=FAILED,
    evidence=Calls,
    judge=judge,
    fix=Fix("leave it to Lightning, or do not return it from configure_optimizers and step it by hand alone"),
    faulty=lambda: Calls("CosineAnnealingLR(T_max=3)", turns=2, within=2, by_hand=2),
    healthy=lambda: Calls("CosineAnnealingLR(T_max=3)", turns=2, within=2, by_hand=0),
)
