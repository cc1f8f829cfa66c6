from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import SharedLayers
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(shared: SharedLayers, limits: Any) -> Iterator[Hit]:
    for names, kind in shared.found:
        yield Hit(
            f"{shown(names)} are one and the same {kind}",
            Place(module=shown(names)),
            f"there is one set of weights where {len(names)} are written: list multiplication copies no layer",
        )


RULE = Rule(
    id="gradients/one-layer-in-several-places",
    item="gradients",
    question="Are the layers of each nn.Sequential or nn.ModuleList different objects, and not one repeated?",
    why="there is one set of weights where several are written",
    severity=WARNING,
    evidence=SharedLayers,
    judge=judge,
    fix=Fix("build each one: nn.Sequential(*(make() for _ in range(n))); if one is meant, register it once"),
    faulty=lambda: SharedLayers([(["deep.0", "deep.1"], "Linear")]),
    healthy=lambda: SharedLayers([]),
)
