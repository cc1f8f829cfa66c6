import math

from torch.nn import functional

from training_checklist.instruments import Numbers
from training_checklist.probe import REMARK, WARNING, Fix, Hit, Hits, Limits, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    passes = numbers.backward
    if passes.bad is None or not math.isfinite(passes.loss):
        return
    what = f"backward of {passes.bad.name} makes {passes.bad.kind} in step {passes.steps}, from finite gradients"
    if passes.reaches:
        yield Hit(f"{what}, at a loss of {passes.loss:.4g}", passes.bad.place)
    else:
        why = "something after it, such as ReLU or a mask, puts 0 in its place; without that, weights would be NaN"
        # Where the forward pass made one, too, code has seen to it: nan_to_num, say, after attention that sees nothing.
        severity = REMARK if passes.bad.follows else WARNING
        yield Hit(f"{what}, which reaches no parameter", passes.bad.place, why, severity=severity)


PROBE = Probe(
    item="anomaly",
    question="Does backward return finite gradients for every operation that is given finite ones?",
    why="the forward value is finite but its slope is not: sqrt, norm or std at 0, log or division near 0, "
    "or 0 * inf in a masked branch; every weight behind it is NaN after this step",
    detect=detect,
    fix=Fix("keep the operand away from the edge: an eps inside, as in (x + 1e-12).sqrt() or x / (std + 1e-6)"),
    faulty=lambda answers, labels: functional.cross_entropy((0 * answers).sqrt(), labels),
    healthy=lambda answers, labels: functional.cross_entropy((0 * answers + 1e-6).sqrt(), labels),
)
