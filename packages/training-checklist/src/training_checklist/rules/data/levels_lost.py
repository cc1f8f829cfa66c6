from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import InputScale
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(inputs: InputScale, limits: Any) -> Iterator[Hit]:
    if inputs.levels == 2 and inputs.stored >= limits.stored_levels:
        yield Hit(
            f"samples enter the network with two different values at most, and are kept with up to {inputs.stored}",
            inputs.place,
        )


RULE = Rule(
    id="data/levels-lost",
    item="limit_batches",
    question="Do samples keep the shades that are stored of them?",
    why="the network sees black and white alone, where grey was stored",
    severity=WARNING,
    evidence=InputScale,
    judge=judge,
    fix=Fix("divide after the conversion to float: images.float() / 255, and not images // 255"),
    faulty=lambda: InputScale(0.01, 0.1, 0.0, 1.0, pixels=True, levels=2, stored=180),
    healthy=lambda: InputScale(0.13, 0.31, 0.0, 1.0, pixels=True, levels=180, stored=180),
    thresholds={
        "stored_levels": Threshold(16, "different values in a sample: of black and white, smoothed, a few are left")
    },
)
