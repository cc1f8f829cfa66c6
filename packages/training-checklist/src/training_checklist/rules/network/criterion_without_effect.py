from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionSlope, LossSlopes
from training_checklist.finding import FAILED, REMARK, Fix
from training_checklist.rule import Hit, Rule


def judge(loss: LossSlopes, limits: Any) -> Iterator[Hit]:
    if loss.are_flat:
        first = loss.slopes[0]
        what = f"{first.name} has no effect on the loss of training_step: its slope is exactly 0"
        # The weight of a term may be 0 on purpose, where others are left.
        yield Hit(what, first.place, severity=REMARK if loss.others else None)


RULE = Rule(
    id="network/criterion-without-effect",
    item="trace",
    question="Does the loss depend on the criterion?",
    why="no weight learns from it, however long it trains",
    severity=FAILED,
    evidence=LossSlopes,
    judge=judge,
    fix=Fix("look for a factor 0, .detach() or .data between the criterion and what training_step returns"),
    faulty=lambda: LossSlopes(0.2, [CriterionSlope("cross_entropy", 2.3, 0.0)]),
    healthy=lambda: LossSlopes(2.3, [CriterionSlope("cross_entropy", 2.3, 1.0), CriterionSlope("kl_div", 0.1, 0.0)]),
)
