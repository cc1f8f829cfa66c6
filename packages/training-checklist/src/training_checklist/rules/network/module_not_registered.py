from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Modules, Unregistered
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(modules: Modules, limits: Any) -> Iterator[Hit]:
    for module in modules.unregistered:
        size = f"{module.type}, {module.parameters} parameters"
        yield Hit(f"{module.path} ({size}) is called but is not registered", Place(module=module.path))


RULE = Rule(
    id="network/module-not-registered",
    item="trace",
    question="Is every module that is called a submodule?",
    why="the optimizer never sees its weights, checkpoints lack them, and they stay on the CPU",
    severity=FAILED,
    evidence=Modules,
    judge=judge,
    fix=Fix("assign it to an attribute of the module, or keep it in nn.ModuleList or nn.ModuleDict"),
    faulty=lambda: Modules(2, [Unregistered("extra[0]", "Linear", 72)]),
    healthy=lambda: Modules(2),
)
