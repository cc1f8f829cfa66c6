from torch.nn import functional

from training_checklist.instruments import Numbers
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    passes = numbers.backward
    if passes.bad is not None:
        yield Hit(
            f"in step {passes.steps} the loss is {passes.loss:.4g}, and "
            f"backward of {passes.bad.name} makes the first {passes.bad.kind}",
            passes.bad.place,
        )


PROBE = Probe(
    item="overflow",
    question="Are all gradients finite where the loss is finite?",
    why="the forward value is finite, its slope is not: a root or norm at 0, a division near 0",
    detect=detect,
    fix=Fix("keep the operand away from the edge with an eps inside", items=("anomaly",)),
    symptom=True,
    faulty=lambda answers, labels: functional.cross_entropy((0 * answers).sqrt(), labels),
    healthy=lambda answers, labels: functional.cross_entropy((0 * answers + 1e-6).sqrt(), labels),
)
