from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.one_batch import SAME_DRAWS, OneBatch, OneTrial
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(batch: OneBatch, limits: Any) -> Iterator[Hit]:
    trial = batch.explanation(SAME_DRAWS)
    if trial is not None:
        yield Hit(
            f"{batch.failure}; with the same random numbers in every step: {trial}. The losses of the first weights, "
            f"each with other random numbers, differ by {batch.noise:.3g}",
            batch.step,
        )


RULE = Rule(
    id="overfit/random-loss",
    item="overfit",
    question="Is the loss of the same batch the same in every step (no random labels, masks or noise)?",
    why="training_step draws at random what has to be learnt: labels, masks, noise, functional.dropout",
    severity=FAILED,
    evidence=OneBatch,
    judge=judge,
    fix=Fix("take out what draws at random", items=("reproducibility",)),
    faulty=lambda: OneBatch([1.4, 1.5], goal=0.05, noise=0.2, trials=[OneTrial(SAME_DRAWS, 0.04, 60, True)]),
    healthy=lambda: OneBatch([1.4, 1.5], goal=0.05, noise=0.2, trials=[OneTrial(SAME_DRAWS, 1.4, 100)]),
)
