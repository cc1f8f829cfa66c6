import math

from torch.nn import functional

from training_checklist.instruments import Numbers
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    passes = numbers.backward
    if passes.bad is None or not math.isfinite(passes.loss):
        return
    what = f"backward of {passes.bad.name} makes {passes.bad.kind} in step {passes.steps}, from finite gradients"
    if passes.reaches:
        yield Hit(f"{what}, at a loss of {passes.loss:.4g}", passes.bad.place)
    else:
        why = "something after it, such as ReLU, puts 0 in its place; without that, weights behind it would be NaN"
        yield Hit(f"{what}, which reaches no parameter", passes.bad.place, why, severity=WARNING)


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
