from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.one_batch import DECAY, OneBatch, OneTrial
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(batch: OneBatch, limits: Any) -> Iterator[Hit]:
    trial = batch.explanation(DECAY)
    if trial is not None:
        yield Hit(f"{batch.failure}; without weight decay: {trial}", Place(key=DECAY, value=f"{trial.value:g}"))


RULE = Rule(
    id="overfit/weight-decay",
    item="overfit",
    question="Can one batch be memorised in spite of weight decay?",
    why="the decay pulls weights to 0 as strongly as the loss pulls them away: from the same weights, and with nothing "
    "else changed, it is learnt without",
    severity=FAILED,
    evidence=OneBatch,
    judge=judge,
    fix=Fix(overrides=(f"++{DECAY}=0",)),
    faulty=lambda: OneBatch(
        [1.4, 0.9], goal=0.05, accuracy=0.6, trials=[OneTrial(DECAY, 0.04, 60, True, value=0.1, given=0.0)]
    ),
    healthy=lambda: OneBatch(
        [1.4, 0.9], goal=0.05, accuracy=0.6, trials=[OneTrial(DECAY, 0.9, 100, False, value=0.1, given=0.0)]
    ),
)
