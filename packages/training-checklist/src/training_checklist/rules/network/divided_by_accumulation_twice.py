from collections.abc import Iterator
from math import isclose
from typing import Any

from training_checklist.evidence.network import CriterionSlope, LossSlopes
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(loss: LossSlopes, limits: Any) -> Iterator[Hit]:
    if loss.accumulated == 1 or len(loss.slopes) != 1:
        return
    [single] = loss.slopes
    if isclose(single.slope, loss.accumulated**-2, rel_tol=1e-4):
        yield Hit(
            f"the loss is {single.name} / {loss.accumulated}, and Lightning divides it by accumulate_grad_batches="
            f"{loss.accumulated} once more",
            single.place,
        )


RULE = Rule(
    id="network/divided-by-accumulation-twice",
    item="trace",
    question="Is the loss divided by the batches that are accumulated once, and not twice?",
    why="steps follow gradients that are as many times too small as batches are accumulated",
    severity=FAILED,
    evidence=LossSlopes,
    judge=judge,
    fix=Fix("return the loss of the batch as it is: Lightning divides it"),
    faulty=lambda: LossSlopes(0.14, [CriterionSlope("cross_entropy", 2.3, 1 / 16)], accumulated=4),
    healthy=lambda: LossSlopes(0.57, [CriterionSlope("cross_entropy", 2.3, 1 / 4)], accumulated=4),
)
