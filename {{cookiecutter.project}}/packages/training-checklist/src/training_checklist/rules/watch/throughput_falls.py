from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from training_checklist.evidence.whole_training import Speed
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(speed: Speed, limits: Any) -> Iterator[Hit]:
    wall = speed.wall
    if not wall:
        raise CannotJudge("the training has too few steps to cut it into parts")
    slower = wall[-1] / wall[0]
    if slower <= limits.slower or not all(later > earlier for earlier, later in pairwise(wall)):
        return
    more = speed.processor[-1] - speed.processor[0]
    works = more > (wall[-1] - wall[0]) / 2
    yield Hit(
        f"a step takes {slower:.1f} times as long at the end as at the start, and longer in each of {len(wall)} parts "
        f"of the training: {1000 * wall[0]:.1f} ms to {1000 * wall[-1]:.1f} ms",
        why="this process computes more in a step than it did, so that something that it goes through grows"
        if works
        else "this process computes no more in a step than it did, so that it waits: for data, a device, or other work "
        "on this machine",
        fix=Fix("look for lists, graphs or metrics that every step adds to", items=("memory",))
        if works
        else Fix("see where a step waits", items=("profile",)),
    )


RULE = Rule(
    id="watch/throughput-falls",
    item="watch",
    question="Does a step take as long at the end of training as at its start?",
    why="the training takes longer and longer",
    severity=WARNING,
    evidence=Speed,
    judge=judge,
    fix=Fix("see where a step spends its time", items=("profile",)),
    faulty=lambda: Speed([0.1 + 0.02 * part for part in range(8)], [0.1 + 0.02 * part for part in range(8)], [0] * 8),
    healthy=lambda: Speed([0.1, 0.1, 0.3, 0.25, 0.2, 0.1, 0.12, 0.2], [0.1] * 8, [0] * 8),
    thresholds={
        "slower": Threshold(
            1.2,
            "times: what else the machine does makes single parts slower by more than that, but not each of eight "
            "slower than the one before, which chance does once in 8! = 40,320",
        )
    },
)
