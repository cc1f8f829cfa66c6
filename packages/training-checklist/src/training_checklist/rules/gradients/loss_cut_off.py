from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Missing, MissingGradients
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(missing: MissingGradients, limits: Any) -> Iterator[Hit]:
    names = [name for group in missing.groups for name in group.names]
    if not names or len(names) < missing.total:
        return
    first = missing.groups[0]
    operation, place = (first.operation, first.place) if missing.loss is None else missing.loss
    by = f": {operation} makes a new tensor of it, without the way back" if operation else ""
    yield Hit(f"{len(names)} of {missing.total} parameters get no gradient, for the loss leads to none{by}", place)


RULE = Rule(
    id="gradients/loss-cut-off",
    item="gradients",
    question="Does the loss have a graph that leads back to at least one parameter?",
    why="nothing is trained, whatever the loss does",
    severity=FAILED,
    evidence=MissingGradients,
    judge=judge,
    fix=Fix("return the loss that the criterion gave; .item(), .detach(), no_grad and torch.tensor(loss) cut it off"),
    faulty=lambda: MissingGradients(1, [Missing("net", ["net.weight"], "cut", "item")], ("tensor", Place(line=57))),
    healthy=lambda: MissingGradients(2, [Missing("net.a", ["net.a"], "cut", "detach")]),
)
