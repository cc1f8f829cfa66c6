from collections.abc import Iterator
from statistics import median
from typing import Any

from training_checklist.evidence.gradients import Effect, OptimizerEffects
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(steps: OptimizerEffects, limits: Any) -> Iterator[Hit]:
    shares = [effect.stayed for effect in steps.effects if effect.stayed is not None]
    if shares and median(shares) > limits.max_lost:
        yield Hit(
            f"{median(shares):.0%} of the 16-bit weights that have a gradient are the same numbers after a step of "
            f"{steps.optimizer}: the step is less than the distance to the next number",
            Place(key="trainer.precision"),
        )


RULE = Rule(
    id="gradients/lost-in-rounding",
    item="gradients",
    question="Are weights precise enough to take the steps?",
    why="weights of 16 bits have 3 digits (bfloat16) or 4 (float16): a step that is less than half of the last one "
    "is rounded away, however often it is taken",
    severity=FAILED,
    evidence=OptimizerEffects,
    judge=judge,
    fix=Fix(
        "keep weights in 32 bits, and compute in 16: trainer.precision=bf16-mixed",
        overrides=("trainer.precision=bf16-mixed",),
    ),
    faulty=lambda: OptimizerEffects("AdamW", [Effect(1.0, 1.0, True, stayed=0.8)] * 5),
    healthy=lambda: OptimizerEffects("AdamW", [Effect(1.0, 1.0, True, stayed=0.1)] * 5),
    thresholds={"max_lost": Threshold(0.5, "share of entries: more is lost than is learnt")},
)
