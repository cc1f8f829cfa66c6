from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.one_batch import RATE, OneBatch, OneTrial
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(batch: OneBatch, limits: Any) -> Iterator[Hit]:
    trial = batch.explanation(RATE)
    if trial is not None:
        too = "low" if trial.given > trial.value else "high"
        yield Hit(
            f"{batch.failure}; with {RATE}={trial.given:.3g} instead of {trial.value:.3g}: {trial}",
            Place(key=RATE, value=f"{trial.value:.3g}"),
            f"the learning rate is too {too}: nothing else differs between the two trainings",
            Fix(overrides=(f"{RATE}={trial.given:.3g}",)),
        )


RULE = Rule(
    id="overfit/learning-rate",
    item="overfit",
    question="Can one batch be memorised with the configured learning rate?",
    why="from the same weights another rate memorises the batch",
    severity=FAILED,
    evidence=OneBatch,
    judge=judge,
    fix=Fix("set the learning rate to what memorises the batch"),
    faulty=lambda: OneBatch(
        [2.3, 900.0], goal=0.05, accuracy=0.1, trials=[OneTrial(RATE, 0.02, 40, True, value=10.0, given=0.01)]
    ),
    healthy=lambda: OneBatch(
        [2.3, 900.0], goal=0.05, accuracy=0.1, trials=[OneTrial(RATE, 2.3, 100, False, value=10.0, given=0.01)]
    ),
)
