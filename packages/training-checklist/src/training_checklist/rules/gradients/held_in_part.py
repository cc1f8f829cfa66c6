from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import FrozenModule
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(module: FrozenModule, limits: Any) -> Iterator[Hit]:
    if module.left:
        yield Hit(
            f"an optimizer holds {shown(module.held)}, frozen for now, and none holds {shown(module.left)}",
            module.place.beside(module=module.path, parameter=shown(module.left)),
        )


RULE = Rule(
    id="gradients/held-in-part",
    item="gradients",
    question="Does the optimizer hold either all or none of the parameters of a frozen module?",
    why="when the module is set free, what no optimizer holds stays as it is",
    severity=WARNING,
    evidence=FrozenModule,
    judge=judge,
    fix=Fix(
        "look at how configure_optimizers sorts parameters into groups: each belongs to one, vector, matrix or kernel"
    ),
    faulty=lambda: FrozenModule("net.conv1", ["net.conv1.bias"], ["net.conv1.weight"]),
    healthy=lambda: FrozenModule("net.conv1", ["net.conv1.bias", "net.conv1.weight"], []),
)
