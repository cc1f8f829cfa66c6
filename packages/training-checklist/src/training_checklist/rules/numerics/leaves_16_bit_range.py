from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.numerics import BadOperation, ForwardPass
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(step: ForwardPass, limits: Any) -> Iterator[Hit]:
    bad = step.bad
    if bad is None or not (step.only_fp16 or (bad.dtype == "float16" and bad.exact is not None)):
        return
    other = "without FP16 it is finite" if bad.exact is None else f"in FP32 it is {bad.exact:.3g}"
    module = bad.place.module.partition(" ")[0] or "it"
    yield Hit(
        f"{step.seen}: {bad.name} makes the first {bad.kind} ({bad.dtype}), from values up to {bad.given:.3g}; {other}",
        bad.place.beside(note=f"it goes into {bad.reached}" if bad.reached else ""),
        fix=Fix(
            f"run {module} in FP32 (torch.autocast(x.device.type, enabled=False), .float() on its inputs), "
            "scale it down, or stay with bf16-mixed",
            ("trainer.precision=bf16-mixed",),
        ),
    )


RULE = Rule(
    id="numerics/leaves-16-bit-range",
    item="overflow",
    question="Is what is finite in FP32 finite in FP16, too?",
    why="it leaves the 16-bit range, which ends at 65504, and below 6e-8 everything is 0: NaN follows",
    severity=FAILED,
    evidence=ForwardPass,
    judge=judge,
    fix=Fix("run the module in FP32"),
    faulty=lambda: ForwardPass(
        float("nan"), "the loss is nan", BadOperation("Inf", "mul", Place(module="net"), "float16", 7.0, 4e6)
    ),
    healthy=lambda: ForwardPass(2.3, ""),
)
