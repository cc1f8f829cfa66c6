from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.gradients import Rounding
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import Hit, Rule, Threshold


def judge(rounding: Rounding, limits: Any) -> Iterator[Hit]:
    stuck = [name for name, lost in rounding.of_each.items() if lost > limits.max_lost]
    step = f"a step of {rounding.optimizer} at a rate of {rounding.rate:.1e}"
    reason = "is less than half the distance to the next 16-bit number"
    if rounding.lost > limits.max_lost:
        yield Hit(f"{step} {reason} for {rounding.lost:.0%} of the weights: they stay what they are", PLACE)
    elif stuck:
        most = f"for most of {shown(stuck)}, {len(stuck)} of {len(rounding.of_each)} parameters"
        yield Hit(f"{step} {reason} {most}: they stay what they are", PLACE, severity=WARNING)


PLACE = Place(key="trainer.precision")

RULE = Rule(
    id="gradients/lost-in-rounding",
    item="gradients",
    question="Are the steps large enough for 16-bit weights, so that rounding does not undo them?",
    why="weights of 16 bits have 3 digits (bfloat16) or 4 (float16): a step that is less than half of the last one "
    "is rounded away, however often it is taken",
    severity=FAILED,
    evidence=Rounding,
    judge=judge,
    fix=Fix(
        "keep weights in 32 bits, and compute in 16: trainer.precision=bf16-mixed",
        overrides=("trainer.precision=bf16-mixed",),
    ),
    faulty=lambda: Rounding("AdamW", 0.8, {"net.weight": 0.8, "net.bias": 0.1}, 1e-5),
    healthy=lambda: Rounding("AdamW", 0.1, {"net.weight": 0.1, "net.bias": 0.0}, 1e-2),
    thresholds={"max_lost": Threshold(0.5, "share of entries: more is lost than is learnt")},
)
