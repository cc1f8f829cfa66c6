from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.one_batch import CLIPPING, OneBatch, OneTrial
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(batch: OneBatch, limits: Any) -> Iterator[Hit]:
    trial = batch.explanation(CLIPPING)
    if trial is None:
        return
    what = f"{batch.failure}; without clipping: {trial}"
    if trial.value:
        why = f"the first gradient, of norm {batch.grad_norm or 0:.2g}, is cut down to {trial.value:g}"
        yield Hit(what, Place(key=CLIPPING, value=f"{trial.value:g}"), why)
    else:
        yield Hit(what, Place(function="configure_gradient_clipping"), fix=Fix("look at what it leaves of gradients"))


RULE = Rule(
    id="overfit/gradient-clipping",
    item="overfit",
    question="Can one batch be memorised in spite of gradient clipping?",
    why="nothing else differs between the two trainings",
    severity=FAILED,
    evidence=OneBatch,
    judge=judge,
    fix=Fix(overrides=(f"{CLIPPING}=null",)),
    faulty=lambda: OneBatch([1.4, 1.4], goal=0.05, trials=[OneTrial(CLIPPING, 0.04, 60, True, value=1e-6)]),
    healthy=lambda: OneBatch([1.4, 1.4], goal=0.05, trials=[OneTrial(CLIPPING, 1.4, 100, False, value=1e-6)]),
)
