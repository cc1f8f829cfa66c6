from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import HalfRange
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold

FP16_MAX = 65504


def judge(seen: HalfRange, limits: Any) -> Iterator[Hit]:
    if seen.largest > limits.near * FP16_MAX:
        share = seen.largest / FP16_MAX
        yield Hit(
            f"FP16 values up to {seen.largest:.3g}: {share:.0%} of its range, which ends at {FP16_MAX}", seen.place
        )


RULE = Rule(
    id="numerics/near-fp16-limit",
    item="overflow",
    question="Are values in FP16 well inside of its range?",
    why="a batch with somewhat larger values makes it Inf, and NaN after that",
    severity=WARNING,
    evidence=HalfRange,
    judge=judge,
    fix=Fix("bf16-mixed has the range of FP32", ("trainer.precision=bf16-mixed",)),
    faulty=lambda: HalfRange(5e4),
    healthy=lambda: HalfRange(1e3),
    thresholds={
        "near": Threshold(0.5, "share of 65504: FP16 has no value twice as large, one more binary digit is Inf")
    },
)
