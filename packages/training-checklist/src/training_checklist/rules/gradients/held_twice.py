from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import counted, shown
from training_checklist.evidence.gradients import Holding, Inventory
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(inventory: Inventory, limits: Any) -> Iterator[Hit]:
    for holding in inventory.holdings:
        if holding.holders > 1:
            yield Hit(
                f"{holding.holders} optimizers hold {counted(holding.names)} of {holding.path}",
                inventory.place.beside(parameter=shown(holding.names)),
            )


RULE = Rule(
    id="gradients/held-twice",
    item="gradients",
    question="Is every parameter held by one optimizer only?",
    why="each of them moves the weights by its own state, against the other",
    severity=FAILED,
    evidence=Inventory,
    judge=judge,
    fix=Fix("give every parameter to one optimizer only"),
    faulty=lambda: Inventory([Holding("net.head", ["net.head.weight"], 2)]),
    healthy=lambda: Inventory([]),
)
