from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import WeightTypes
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(types: WeightTypes, limits: Any) -> Iterator[Hit]:
    if types.double and "64" not in types.precision:
        named = ", ".join(types.double[:3])
        yield Hit(
            f"{len(types.double)} of {types.number} parameters are float64, with trainer.precision={types.precision}: "
            f"{named}",
            Place(parameter=types.double[0]),
        )


RULE = Rule(
    id="network/double-precision",
    item="trace",
    question="Have weights 64 bits only where that is asked for?",
    why="they take twice the memory and several times the time; many accelerators have next to no units for them",
    severity=WARNING,
    evidence=WeightTypes,
    judge=judge,
    fix=Fix("no .double() and no set_default_dtype(torch.float64); data from NumPy are float64: .float()"),
    faulty=lambda: WeightTypes(["net.0.weight"], 4, "32-true"),
    healthy=lambda: WeightTypes(["net.0.weight"], 4, "64-true"),
)
