from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import EqualRows
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(rows: EqualRows, limits: Any) -> Iterator[Hit]:
    names = list(dict.fromkeys([*rows.still, *rows.filled]))
    if names:
        after = f", and still after {rows.steps} steps" if rows.still else ""
        zeros = f"; the gradients of {len(rows.zero)} of {rows.total} parameters are exactly 0" if rows.zero else ""
        yield Hit(f"all rows of {shown(names)} are equal at the start{after}{zeros}", Place(parameter=shown(names)))


RULE = Rule(
    id="gradients/equal-rows",
    item="gradients",
    question="Are the units of each layer initialised with different weights?",
    why="units that start equal get equal gradients: the layer has one unit, however wide it is",
    severity=FAILED,
    evidence=EqualRows,
    judge=judge,
    fix=Fix("initialise at random (nn.init.kaiming_normal_, xavier_uniform_); a constant is for biases and norms"),
    faulty=lambda: EqualRows(["net.weight"], [], [], 4, 10),
    healthy=lambda: EqualRows([], [], ["net.head.weight"], 4, 10),
)
