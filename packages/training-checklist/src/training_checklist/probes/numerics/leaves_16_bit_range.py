from torch.nn import functional

from training_checklist.instruments import Numbers, in_mixed_precision
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    step = numbers.forward
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


PROBE = Probe(
    item="overflow",
    question="Are values that are finite in FP32 finite in FP16, too?",
    why="it leaves the 16-bit range, which ends at 65504, and below 6e-8 everything is 0: NaN follows",
    detect=detect,
    fix=Fix("run the module in FP32"),
    faulty=in_mixed_precision(lambda answers, labels: functional.cross_entropy(6e5 * answers / 6e5, labels)),
    healthy=in_mixed_precision(lambda answers, labels: functional.cross_entropy(6e2 * answers / 6e2, labels)),
)
