from typing import Any

import torch
from torch import Tensor, nn

from training_checklist.instruments import Example, FirstSteps, Small, several_steps
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe, Threshold


def detect(steps: FirstSteps, limits: Limits) -> Hits:
    first, last = steps.losses[:1], steps.losses[-3:]
    for each in steps.with_updates():
        size, end = max(each.ratios), sum(last) / len(last)
        rises = end - first[0] > limits.max_rise * abs(first[0])
        if size > (limits.max_update if rises else limits.max_update_alone):
            yield Hit(
                f"a step at the rate that is led to changes the weights by {size:.3g} times their norm"
                + (f", and the loss rises: {first[0]:.4g} to {end:.4g}" if rises else ""),
                Place(key="optimizer.lr", value=f"{each.rate or 0.0:g}"),
            )


class Steered(Small):
    """Every step changes the weights by the same share of their norm, and the loss by the same share of the first."""

    share, rise = 0.1, 0.0

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(4))
        self.first, self.head = None, None

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        learnt = self.weight.sum()
        return learnt - learnt.detach() + 1.0 + (self.rise if batch_idx else 0.0)

    def configure_optimizers(self) -> Any:
        return Turning(self.parameters(), self.share)


class Turning(torch.optim.SGD):
    """Goes to and fro between the first weights and those that are so many times as large."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = None
        with torch.enable_grad():
            loss = closure() if closure is not None else None
        for group in self.param_groups:
            for weight in group["params"]:
                larger = weight.norm() > 3.0
                weight.copy_(torch.eye(4) if larger else torch.eye(4) * (1 + group["lr"]))
        return loss


def steered(share: float, rise: float) -> Example:
    return several_steps(type("Kind", (Steered,), {"share": share, "rise": rise}))


PROBE = Probe(
    question="Are the optimizer's steps smaller than the weights that they change?",
    why="what the weights were is gone after such a step: the learning rate is too high, or the gradients are; where "
    "norms hide it from the loss, the weights become so large that later steps hardly move them",
    severity=WARNING,
    fix=Fix("it tries other learning rates", items=("learning",)),
    detect=detect,
    thresholds={
        "max_update": Threshold(
            1.0,
            "of the weights' norm: a longer step leaves nothing of where it started from",
            factor=1.8,
            faulty=steered(1.5, rise=1.0),
            healthy=steered(0.8, rise=1.0),
        ),
        "max_update_alone": Threshold(
            2.0,
            "of the weights' norm, whatever the loss does; the most of 41 healthy variants and 13 projects is 0.42, of "
            "RMSprop in its first step, and usual is 1e-3 (cs231n.github.io/neural-networks-3/#ratio)",
            factor=1.8,
        ),
        "max_rise": Threshold(
            0.5,
            "of the first loss, at the mean of the last three: from batch to batch healthy ones rose by 0.01 at most",
            factor=1.8,
            faulty=steered(1.5, rise=0.7),
            healthy=steered(1.5, rise=0.4),
        ),
    },
    faulty=steered(2.5, rise=0.0),
    healthy=steered(1.5, rise=0.0),
    symptom=True,
)
