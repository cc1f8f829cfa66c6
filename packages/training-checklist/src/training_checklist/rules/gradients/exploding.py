from collections.abc import Iterator
from statistics import median
from typing import Any

from training_checklist.evidence.gradients import AlongDepth
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(depth: AlongDepth, limits: Any) -> Iterator[Hit]:
    early, late = depth.ends
    if not early:
        raise CannotJudge("fewer than six modules in a row have gradients, so that there is no depth to speak of")
    ratio = median(early) / max(late)
    if ratio > limits.exploding and depth.is_of_depth(ratio):
        yield Hit(*depth.told("explode", ratio))


RULE = Rule(
    id="gradients/exploding",
    item="gradients",
    question="Are the gradients of the first layers of about the same size as those of the last (none exploding)?",
    why="every step throws the first layers about",
    severity=FAILED,
    evidence=AlongDepth,
    judge=judge,
    fix=Fix("ReLU or GELU for sigmoid or tanh, residual connections, norms, initialisation by kaiming, xavier"),
    faulty=lambda: AlongDepth({f"deep.{depth}": 10.0 ** (12 - depth) for depth in range(12)}),
    healthy=lambda: AlongDepth({f"deep.{depth}": 0.5 ** (12 - depth) for depth in range(12)}),
    thresholds={
        "exploding": Threshold(
            1e4,
            "the first third's median, of the last third's largest: the greatest that was measured over 22 healthy "
            "networks and projects is 4.5, of one with several tasks; 8 ReLU layers of deviation 1 have 3e4",
        )
    },
)
