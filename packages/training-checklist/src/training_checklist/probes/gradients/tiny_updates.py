import torch

from training_checklist.instruments import Example, FirstSteps, several_steps
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    for each in steps.with_updates():
        largest, kept = max(each.ratios), max(each.kept, default=1.0)
        if largest < limits.min_update:
            clip = f"; clipping leaves them {kept:.1e} of the gradients" if kept < 1 else ""
            yield Hit(
                f"none of {len(each.ratios)} steps changes the weights by more than {largest:.1e} of their norm{clip}",
                Place(key="optimizer.lr", value=f"{each.rate or 0.0:g}"),
            )


def adam(rate: float) -> Example:
    return several_steps(optimizer=lambda weights: torch.optim.Adam(weights, lr=rate))


PROBE = Probe(
    question="Are the optimizer's steps large enough, relative to the weights, to change them?",
    why="a million such steps in one direction would change the weights by their own size; a small learning rate fits, "
    "clipping, or fine-tuning that is meant",
    severity=WARNING,
    may_be_wrong="fine-tuning with a small rate, and the first steps of a warm-up, hardly change the weights",
    fix=Fix("it tries other learning rates", items=("learning",)),
    detect=detect,
    thresholds={
        "min_update": Threshold(
            1e-6,
            "of the weights' norm: eight times the resolution of FP32 (1.2e-7); usual is 1e-3 "
            "(cs231n.github.io/neural-networks-3/#ratio), and the least that was measured over 25 healthy networks and "
            "projects is 8.9e-6, of fine-tuning with Adam at 1e-6",
            factor=10.0,
        )
    },
    faulty=adam(1e-7),
    healthy=adam(1e-6),
    symptom=True,
)
