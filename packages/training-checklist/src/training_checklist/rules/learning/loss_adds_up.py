from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import AddedUp
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(added: AddedUp, limits: Any) -> Iterator[Hit]:
    if not added.is_sum or added.apart:
        return
    if added.reduction == "sum" and added.labels > 1:
        what = f"the loss is the criterion's sum over {added.labels} labels"
    elif added.reduction == "mean" and added.parts > 1:
        what = (
            f"the loss is the sum of {added.parts} means, each over its own part of the batch's {added.labels} labels"
        )
    else:
        return
    yield Hit(
        f"{what}: {added.loss:.4g}, {added.loss / added.mean:.3g} times the mean over the batch, {added.mean:.4g}",
        added.place,
    )


RULE = Rule(
    id="learning/loss-adds-up",
    item="learning",
    question="Is the loss a mean over the batch, and not a sum?",
    why="gradients are as many times as large, and so is each step of an optimizer like SGD: the learning rate means "
    "something else with every size of the batch or number of its parts",
    severity=WARNING,
    evidence=AddedUp,
    judge=judge,
    fix=Fix("divide by the number of parts, or give the criterion reduction=mean"),
    faulty=lambda: AddedUp(loss=4.62, mean=2.31, parts=2, labels=64, reduction="mean", is_sum=True),
    healthy=lambda: AddedUp(loss=2.31, mean=2.31, parts=2, labels=64, reduction="mean", is_sum=False),
)
