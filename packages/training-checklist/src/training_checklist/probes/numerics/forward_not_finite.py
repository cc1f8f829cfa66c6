import math

from torch.nn import functional

from training_checklist.instruments import Numbers
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    step = numbers.forward
    bad = step.bad
    if math.isfinite(step.loss) or step.weights or step.batch:
        return
    if bad is None:
        where = f"{step.module}, the first module with Inf or NaN in its output" if step.module else "training_step"
        yield Hit(f"{step.seen}; no operation was seen to make it", Place(note=where))
    elif not (step.only_fp16 or (bad.dtype == "float16" and bad.exact is not None)):
        yield Hit(
            f"{step.seen}: {bad.name} makes the first {bad.kind} ({bad.dtype}), from values up to {bad.given:.3g}",
            bad.place.beside(note=f"it goes into {bad.reached}" if bad.reached else ""),
        )


PROBE = Probe(
    item="overflow",
    question="Is the loss finite where batch and weights are finite and no value is too large for FP16?",
    why="it happens in FP32, too, so that the range of 16 bits is not to blame: a division by 0, a log or root at "
    "the edge, exp of too much, or Inf - Inf",
    detect=detect,
    fix=Fix("keep the operand away from the edge: x / (std + 1e-6), x.clamp_min(1e-6).log()"),
    faulty=lambda answers, labels: (0 * functional.cross_entropy(answers, labels)).log(),
    healthy=lambda answers, labels: (1 + functional.cross_entropy(answers, labels)).log(),
)
