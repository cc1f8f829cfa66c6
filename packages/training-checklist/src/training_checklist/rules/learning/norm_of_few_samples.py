from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.epochs import Modes
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(modes: Modes, limits: Any) -> Iterator[Hit]:
    few = {path: sizes for path, sizes in modes.few.items() if sizes[0] < limits.min_norm_samples}
    if few and not modes.shared:
        samples, values = min(few.values())
        yield Hit(
            f"a batch has {samples} samples, of which {', '.join(list(few)[:3])} takes mean and variance",
            Place(module=", ".join(few)),
            severity=FAILED if values < limits.min_norm_samples else WARNING,
        )


RULE = Rule(
    id="learning/norm-of-few-samples",
    item="learning",
    question="Does each batch have enough samples for BatchNorm?",
    why="statistics of so few samples are noise, and validation uses others",
    severity=FAILED,
    evidence=Modes,
    judge=judge,
    fix=Fix("GroupNorm or LayerNorm", overrides=("data.batch_size=32",)),
    faulty=lambda: Modes(few={"norm": (2, 2)}),
    healthy=lambda: Modes(few={"norm": (16, 16)}),
    thresholds={
        "min_norm_samples": Threshold(
            3,
            "a variance that is estimated from n values has a relative standard deviation of sqrt(2/(n-1)): 141 % of 2",
        )
    },
)
