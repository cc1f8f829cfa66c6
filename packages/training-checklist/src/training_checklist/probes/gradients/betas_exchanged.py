from typing import Any

import torch

from training_checklist.instruments import Example, FirstSteps, several_steps
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    for optimizer in steps.trainer.optimizers:
        # Of three, as Adan has them, the second is of something else.
        known = {tuple(map(float, group.get("betas") or ())) for group in optimizer.param_groups}
        for first, second in (betas for betas in known if len(betas) == 2):
            if first > second:
                name = type(optimizer).__name__
                what = f"{name} has betas=({first:g}, {second:g}): gradients are averaged for longer than their squares"
                yield Hit(what, steps.configured)


def adam(*betas: float) -> Example:
    return several_steps(optimizer=lambda weights: torch.optim.Adam(weights, betas=betas))


class Three(torch.optim.SGD):
    """Has three, as Adan does."""

    def __init__(self, weights: Any) -> None:
        super().__init__(weights, lr=0.01)
        self.param_groups[0]["betas"] = (0.98, 0.92, 0.99)


PROBE = Probe(
    question="Is Adam's beta1 smaller than its beta2?",
    why="steps are stable while squares are averaged for longer than gradients (Kingma and Ba 2015: beta1 is less than "
    "the root of beta2); the other way round they go on in old directions",
    severity=WARNING,
    fix=Fix("betas=(0.9, 0.999)", overrides=("optimizer.betas=[0.9,0.999]",)),
    detect=detect,
    faulty=adam(0.999, 0.9),
    healthy=adam(0.5, 0.999),
    also_healthy=(several_steps(optimizer=lambda weights: Three(weights)),),
)
