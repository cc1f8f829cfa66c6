from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import GroupRates
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(groups: GroupRates, limits: Any) -> Iterator[Hit]:
    schedule = len(set(groups.led_to)) == 1 and max(groups.led_to) > 0
    by_hand = len(set(groups.taken)) == 1 and max(groups.taken) > 0
    if len(set(groups.made)) > 1 and (schedule or by_hand):
        what = groups.schedule if schedule and groups.schedule else "something that writes to param_groups"
        rate = groups.led_to[0] if schedule else groups.taken[0]
        yield Hit(
            f"the optimizer's groups were made with rates of {', '.join(f'{each:.3g}' for each in groups.made)}, and "
            f"{what} gives all of them one: {rate:.3g}",
            groups.place.beside(note=groups.schedule),
        )


RULE = Rule(
    id="schedule/groups-share-a-rate",
    item="learning",
    question="Does each parameter group keep a learning rate of its own under the lr_scheduler?",
    why="layers that were to move slowly, as pretrained ones, move as fast as new ones",
    severity=FAILED,
    evidence=GroupRates,
    judge=judge,
    fix=Fix("give the schedule a rate for each group: OneCycleLR(optimizer, max_lr=[...]), or multiply each"),
    faulty=lambda: GroupRates([1e-4, 1e-3], [1e-3, 1e-3], [4e-4, 4e-4], "OneCycleLR(total_steps=100)"),
    healthy=lambda: GroupRates([1e-4, 1e-3], [1e-4, 1e-3], [4e-5, 4e-4], "OneCycleLR(total_steps=100)"),
)
