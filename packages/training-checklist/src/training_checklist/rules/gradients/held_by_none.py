from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import counted, shown
from training_checklist.evidence.gradients import Holding, Inventory
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(inventory: Inventory, limits: Any) -> Iterator[Hit]:
    strangers = ""
    if inventory.strangers:
        strangers = f"; what they hold instead is no parameter of the model: {shown(inventory.strangers)}"
    for holding in inventory.holdings:
        if holding.holders or not holding.reached:
            continue
        them = "it" if len(holding.names) == 1 else "them"
        yield Hit(
            f"no optimizer holds {counted(holding.names)} of {holding.path}, "
            f"although the loss depends on {them}{strangers}",
            inventory.place.beside(parameter=shown(holding.names)),
            fix=Fix(
                f"give the optimizer self.parameters(), make layers before configure_optimizers runs, "
                f"or freeze {holding.path} with requires_grad_(False) if that is meant"
            ),
        )


RULE = Rule(
    id="gradients/held-by-none",
    item="gradients",
    question="Is every parameter that gets a gradient in a parameter group of an optimizer?",
    why="they get gradients and never change: what they compute stays as random as it began",
    severity=FAILED,
    evidence=Inventory,
    judge=judge,
    fix=Fix("give the optimizer self.parameters()"),
    faulty=lambda: Inventory([Holding("net.head", ["net.head.weight", "net.head.bias"], 0)], [(10, 64)]),
    healthy=lambda: Inventory([Holding("net.teacher", ["net.teacher.weight"], 0, reached=False)]),
)
