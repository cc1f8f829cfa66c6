from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import AlongDepth
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(depth: AlongDepth, limits: Any) -> Iterator[Hit]:
    early, late = depth.ends
    if not early:
        raise CannotJudge("fewer than six modules in a row have gradients, so that there is no depth to speak of")
    ratio = max(early) / max(late)
    if ratio < limits.vanishing and depth.is_of_depth(ratio):
        yield Hit(*depth.told("vanish", ratio))


RULE = Rule(
    id="gradients/vanishing",
    item="gradients",
    question="Are the gradients of the first layers of about the same size as those of the last (none vanishing)?",
    why="the first layers hardly learn",
    severity=FAILED,
    evidence=AlongDepth,
    judge=judge,
    fix=Fix("ReLU or GELU for sigmoid or tanh, residual connections, norms, initialisation by kaiming, xavier"),
    faulty=lambda: AlongDepth({f"deep.{depth}": 0.1 ** (12 - depth) for depth in range(12)}),
    healthy=lambda: AlongDepth({f"deep.{depth}": 0.5 ** (12 - depth) for depth in range(12)}),
    thresholds={
        "vanishing": Threshold(
            1e-5,
            "the first third's largest, of the last third's largest: the least that was measured over 22 healthy "
            "networks and projects is 1.7e-5, of 16 plain ReLU layers; 8 sigmoid layers have 1.1e-6",
        )
    },
)
