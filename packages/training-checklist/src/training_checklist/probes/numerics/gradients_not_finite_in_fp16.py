from torch.nn import functional

from training_checklist.instruments import Numbers, in_mixed_precision
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Probe


def detect(numbers: Numbers, limits: Limits) -> Hits:
    passes = numbers.backward_in_fp16
    if passes is None:
        raise CannotJudge("no step was tried in FP16; checks.overflow.probe=true tries one")
    if passes.bad is not None:
        yield Hit(
            f"in FP16 autocast the loss is {passes.loss:.4g}, and "
            f"backward of {passes.bad.name} makes the first {passes.bad.kind}",
            passes.bad.place,
        )


PROBE = Probe(
    item="overflow",
    question="Are all gradients finite in FP16 where the loss is finite?",
    why="a slope is beyond 65504, or an eps that keeps an operand away from 0 is itself 0 in FP16",
    detect=detect,
    fix=Fix("keep the operand away from the edge with an eps of 1e-4 or more", ("trainer.precision=bf16-mixed",)),
    faulty=in_mixed_precision(
        lambda answers, labels: functional.cross_entropy(answers + ((answers - answers).abs() + 1e-8).sqrt(), labels)
    ),
    healthy=in_mixed_precision(
        lambda answers, labels: functional.cross_entropy(answers + ((answers - answers).abs() + 1e-4).sqrt(), labels)
    ),
)
