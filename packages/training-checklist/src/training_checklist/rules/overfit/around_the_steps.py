from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.one_batch import BY_HAND, OneBatch, OneTrial
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(batch: OneBatch, limits: Any) -> Iterator[Hit]:
    trial = batch.explanation(BY_HAND)
    if trial is not None:
        still = "; not one weight changed in the first step" if batch.update == 0 else ""
        place = batch.around if str(batch.around) else Place(note="what Lightning calls around a step")
        yield Hit(f"{batch.failure}{still}; a copy whose steps call no hooks and no callbacks: {trial}", place)


RULE = Rule(
    id="overfit/around-the-steps",
    item="overfit",
    question="Do hooks and callbacks leave weights and gradients as the optimizer needs them?",
    why="network, batch, criterion and optimizer are able to learn: what is called around the steps undoes it, such as "
    "zeroed gradients, an optimizer_step that takes none, or weights that are set anew",
    severity=FAILED,
    evidence=OneBatch,
    judge=judge,
    fix=Fix("look at what these change between backward and the next forward pass", items=("gradients",)),
    faulty=lambda: OneBatch(
        [1.4, 1.4],
        goal=0.05,
        update=0.0,
        around=Place(function="Net.on_before_optimizer_step"),
        trials=[OneTrial(BY_HAND, 0.04, 60, True)],
    ),
    healthy=lambda: OneBatch([1.4, 1.4], goal=0.05, update=0.0, trials=[OneTrial(BY_HAND, 1.4, 100)]),
)
