from statistics import median

import torch

from training_checklist.instruments import Example, FirstSteps, several_steps, shown
from training_checklist.probe import WARNING, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe, Threshold

PLACE = Place(key="trainer.precision")


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    known = [each for each in steps.optimizers if each.lost_of_all]
    if not known:
        raise CannotJudge("no optimizer moves weights of 16 bits without copies of them in 32")
    names = {parameter: name for name, parameter in steps.pl_module.named_parameters()}
    for each in known:
        lost, of_each = median(each.lost_of_all), {names[p]: median(of) for p, of in each.lost.items() if p in names}
        stuck = [name for name, share in of_each.items() if share > limits.max_lost]
        step = f"a step of {each.name} at a rate of {max(each.rates):.1e}"
        reason = "is less than half the distance to the next 16-bit number"
        if lost > limits.max_lost:
            yield Hit(f"{step} {reason} for {lost:.0%} of the weights: they stay what they are", PLACE)
        elif stuck:
            most = f"for most of {shown(stuck)}, {len(stuck)} of {len(of_each)} parameters"
            yield Hit(f"{step} {reason} {most}: they stay what they are", PLACE, severity=WARNING)


def in_bfloat16(rate: float) -> Example:
    return several_steps(optimizer=lambda weights: torch.optim.Adam(weights, lr=rate), precision="bf16-true")


PROBE = Probe(
    question="Are the steps large enough for 16-bit weights, so that rounding does not undo them?",
    why="weights of 16 bits have 3 digits (bfloat16) or 4 (float16): a step that is less than half of the last one "
    "is rounded away, however often it is taken",
    fix=Fix(
        "keep weights in 32 bits, and compute in 16: trainer.precision=bf16-mixed",
        overrides=("trainer.precision=bf16-mixed",),
    ),
    detect=detect,
    thresholds={"max_lost": Threshold(0.5, "share of entries: more is lost than is learnt", factor=1.9)},
    faulty=in_bfloat16(2e-4),
    healthy=in_bfloat16(1.5e-3),
)
