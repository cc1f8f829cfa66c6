from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from training_checklist.evidence.whole_training import Speed
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(speed: Speed, limits: Any) -> Iterator[Hit]:
    wall, processor = speed.wall, speed.processor
    if not wall:
        raise CannotJudge("the training has too few steps to cut it into parts")
    slower, more = wall[-1] / wall[0], processor[-1] / processor[0]
    if min(slower, more) > limits.slower and rises(wall) and rises(processor):
        yield Hit(
            f"a step takes {slower:.1f} times as long at the end as at the start, {1000 * wall[0]:.1f} ms to "
            f"{1000 * wall[-1]:.1f} ms, and longer in each of {len(wall)} parts of the training than in the one "
            f"before; this process computes {more:.1f} times as long in it"
        )


def rises(times: list[float]) -> bool:
    return all(later > earlier for earlier, later in pairwise(times))


RULE = Rule(
    id="watch/throughput-falls",
    item="watch",
    question="Does a step take as long at the end of training as at its start?",
    why="a step works on more and more: a list, a graph or a metric that every step adds to fits; so do inputs that "
    "are meant to grow",
    severity=WARNING,
    evidence=Speed,
    judge=judge,
    fix=Fix("see what grows, and where a step spends its time", items=("memory", "profile")),
    faulty=lambda: Speed([0.1 + 0.02 * part for part in range(8)], [0.1 + 0.02 * part for part in range(8)], [0] * 8),
    healthy=lambda: Speed([0.1 + 0.05 * part for part in range(8)], [0.1, 0.14, 0.11, 0.1, 0.13] + [0.12] * 3, [0] * 8),
    thresholds={
        "slower": Threshold(
            2,
            "times, of the clock and of this process's own time: what else a machine does prolongs the first without "
            "bound, and the second by at most that, where two threads share a core; up to 1.5 was measured",
        )
    },
)
