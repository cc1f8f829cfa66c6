from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import Inventory
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(inventory: Inventory, limits: Any) -> Iterator[Hit]:
    for shapes, place in inventory.unregistered:
        yield Hit(f"parameters that belong to no module of the model are trained through: {shown(shapes)}", place)


RULE = Rule(
    id="gradients/not-registered",
    item="gradients",
    question="Is every tensor that is trained a parameter of a registered module?",
    why="no optimizer holds them, no checkpoint has them, and they stay on the CPU",
    severity=FAILED,
    evidence=Inventory,
    judge=judge,
    fix=Fix("assign their module to an attribute, or keep it in nn.ModuleList or nn.ModuleDict"),
    faulty=lambda: Inventory([], unregistered=[([(32, 32), (32,)], Place(module="net"))]),
    healthy=lambda: Inventory([]),
)
