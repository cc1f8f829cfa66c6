from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.gradients import Updates
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(updates: Updates, limits: Any) -> Iterator[Hit]:
    largest = max(updates.ratios)
    if largest < limits.min_update:
        clip = f"; clipping leaves them {updates.kept:.1e} of the gradients" if updates.kept < 1 else ""
        yield Hit(
            f"none of {len(updates.ratios)} steps changes the weights by more than {largest:.1e} of their norm{clip}",
            Place(key="optimizer.lr", value=f"{updates.rate:g}"),
        )


RULE = Rule(
    id="gradients/tiny-updates",
    item="gradients",
    question="Are the optimizer's steps large enough, relative to the weights, to change them?",
    why="a million such steps in one direction would change the weights by their own size; a small learning rate fits, "
    "clipping, or fine-tuning that is meant",
    severity=WARNING,
    evidence=Updates,
    judge=judge,
    fix=Fix("it tries other learning rates", items=("learning",)),
    faulty=lambda: Updates([1e-7] * 10, [2.3, 2.3], 1e-8),
    healthy=lambda: Updates([3e-5] * 10, [2.3, 2.3], 1e-5),
    thresholds={
        "min_update": Threshold(
            1e-6,
            "of the weights' norm: eight times the resolution of FP32 (1.2e-7); usual is 1e-3 "
            "(cs231n.github.io/neural-networks-3/#ratio), and the least that was measured over 25 healthy networks and "
            "projects is 8.9e-6, of fine-tuning with Adam at 1e-6",
        )
    },
    symptom=True,
)
