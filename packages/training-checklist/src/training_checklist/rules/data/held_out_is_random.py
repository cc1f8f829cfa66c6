from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Reloaded
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(again: Reloaded, limits: Any) -> Iterator[Hit]:
    if not again.differ:
        return
    if not again.classifies and (again.random_targets or not again.larger):
        # Masked tokens, or noise that a network is to remove, may be drawn anew in every pass.
        raise CannotJudge("inputs of held-out samples are random, and the criterion does not tell whether they may be")
    yield Hit(
        f"{again.differ} of {again.samples} samples of {again.place.loader} differ when they are loaded again",
        again.place,
    )


RULE = Rule(
    id="data/held-out-is-random",
    item="limit_batches",
    question="Are held-out samples the same whenever they are loaded?",
    why="random augmentation of validation or test data: metrics change from one pass to the next",
    severity=FAILED,
    evidence=Reloaded,
    judge=judge,
    fix=Fix("give this split transforms without randomness"),
    faulty=lambda: Reloaded(64, differ=60, random_targets=False, classifies=True, larger=True),
    healthy=lambda: Reloaded(64, differ=0, random_targets=False, classifies=True, larger=True),
)
