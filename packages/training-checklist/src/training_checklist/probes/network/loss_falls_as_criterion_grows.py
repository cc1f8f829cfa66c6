from collections.abc import Iterator
from typing import Any

from torch.nn import functional

from training_checklist.finding import FAILED, Fix
from training_checklist.lab.loss_slopes import Losses
from training_checklist.lab.step import Step
from training_checklist.probe import Probe
from training_checklist.rule import CannotJudge, Hit


def detect(step: Step, limits: Any) -> Iterator[Hit]:
    if len(step.trainer.optimizers) > 1:
        raise CannotJudge("several optimizers may play against each other")
    for loss in step.heard().of_criteria():
        if all(each.slope < 0 for each in loss.slopes):
            first = loss.slopes[0]
            values = f"{loss.loss:.4g} where {first.name} is {first.value:.4g}"
            yield Hit(f"the loss of training_step is {values}: it falls as {first.name} grows", first.place)


PROBE = Probe(
    id="network/loss-falls-as-criterion-grows",
    item="trace",
    question="Does the loss that training_step returns grow when the criterion grows (no minus sign in front of it)?",
    why="training makes the criterion worse, and the loss falls without bound",
    severity=FAILED,
    fix=Fix("remove the minus sign"),
    listener=Losses,
    detect=detect,
    faulty=lambda answers, labels: -functional.cross_entropy(answers, labels),
    healthy=lambda answers, labels: functional.cross_entropy(answers, labels),
)
