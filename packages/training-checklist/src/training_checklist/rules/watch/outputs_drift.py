from collections.abc import Iterator
from statistics import median
from typing import Any

from training_checklist.evidence.whole_training import OutputScales, ends
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(outputs: OutputScales, limits: Any) -> Iterator[Hit]:
    if not ends(outputs.steps)[0]:
        raise CannotJudge(f"{len(outputs.steps)} steps were looked at, which are too few")
    changes = {name: change(scales) for name, scales in outputs.scales.items()}
    drifted = {name: factor for name, factor in changes.items() if max(factor, 1 / factor) > limits.drift}
    if drifted:
        name = max(drifted, key=lambda name: max(drifted[name], 1 / drifted[name]))
        first, last = (median(part) for part in ends(outputs.scales[name]))
        others = f", and {len(drifted) - 1} more modules likewise" if len(drifted) > 1 else ""
        yield Hit(
            f"what {name} returns has a root mean square of {first:.2g} at the start of training and of {last:.2g} at "
            f"its end{others}",
            Place(module=name),
        )


def change(scales: list[float]) -> float:
    """Return the last third's median as a multiple of the first's; 1 where one of them is 0: a head may start so."""
    first, last = (median(part) for part in ends(scales))
    return last / first if first and last else 1.0


RULE = Rule(
    id="watch/outputs-drift",
    item="watch",
    question="Do the outputs of modules stay of one order of magnitude, or nearly?",
    why="whatever comes after it was made for another scale, and 16-bit types end at 65504; weights that grow without "
    "bound fit, a norm that is missing, or a sum that goes on and on",
    severity=WARNING,
    evidence=OutputScales,
    judge=judge,
    fix=Fix("a norm before it, weight decay, or a lower learning rate", items=("overflow",)),
    faulty=lambda: OutputScales({"net": [1.0] * 4 + [900.0] * 4 + [5000.0] * 4}, list(range(12))),
    healthy=lambda: OutputScales({"net.head": [0.2] * 4 + [3.0] * 4 + [9.0] * 4}, list(range(12))),
    thresholds={
        "drift": Threshold(
            1000,
            "times, one way or the other: the greatest that was measured over twelve healthy networks is 14, of the "
            "head of six ReLU layers that SGD is slow to begin with; most are below 3",
        )
    },
    symptom=True,
)
