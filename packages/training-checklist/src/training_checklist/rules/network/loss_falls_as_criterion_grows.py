from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionSlope, LossSlopes
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(loss: LossSlopes, limits: Any) -> Iterator[Hit]:
    if loss.optimizers > 1:
        raise CannotJudge("several optimizers may play against each other")
    if loss.slopes and all(each.slope < 0 for each in loss.slopes):
        first = loss.slopes[0]
        values = f"{loss.loss:.4g} where {first.name} is {first.value:.4g}"
        yield Hit(f"the loss of training_step is {values}: it falls as {first.name} grows", first.place)


RULE = Rule(
    id="network/loss-falls-as-criterion-grows",
    item="trace",
    question="Does the loss grow with the criteria that it is made of?",
    why="training makes the criterion worse, and the loss falls without bound",
    severity=FAILED,
    evidence=LossSlopes,
    judge=judge,
    fix=Fix("remove the minus sign"),
    faulty=lambda: LossSlopes(-2.3, [CriterionSlope("cross_entropy", 2.3, -1.0)]),
    healthy=lambda: LossSlopes(
        -0.1, [CriterionSlope("cross_entropy", 0.3, 1.0), CriterionSlope("mse_loss", 0.4, -1.0)]
    ),
)
