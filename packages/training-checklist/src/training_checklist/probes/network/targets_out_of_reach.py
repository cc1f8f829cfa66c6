from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from training_checklist.instruments import Small, Step, criterion_inputs
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe, Threshold

NEVER_NEGATIVE = {"Relu": "a ReLU", "Softplus": "a softplus", "Exp": "an exp"}
SHARES = {"Sigmoid": "a sigmoid", "Softmax": "a softmax"}


def detect(step: Step, limits: Limits) -> Hits:
    for given in criterion_inputs(step):
        target, made = given.target, NEVER_NEGATIVE.get(given.made_by) or SHARES.get(given.made_by)
        if made is None or given.is_fixed or not target.is_floating_point() or tuple(target.shape) != given.shape:
            continue
        beyond = (target < 0) | (target > 1) if given.made_by in SHARES else target < 0
        share = float(beyond.float().mean())
        if share > limits.beyond:
            bounds = "0 to 1" if given.made_by in SHARES else "0 and more"
            yield Hit(
                f"{made} makes the answers that {given.name} gets, {bounds}, and {share:.0%} of the targets lie beyond",
                given.place,
            )


def with_negative(number: int) -> Any:
    """Return the loss of ReLU's answers and 64 targets, of which some are negative."""

    def loss(answers: Tensor, labels: Tensor) -> Tensor:
        targets = torch.ones(64)
        targets[:number] = -1.0
        return functional.mse_loss(answers.relu(), targets.view(16, 4))

    return loss


class Features(Small):
    """Compares features that a fixed network makes of its answers with others."""

    def __init__(self) -> None:
        super().__init__()
        self.fixed = nn.Linear(4, 4).requires_grad_(False)

    def loss(self, answers: Tensor, labels: Tensor) -> Tensor:
        return with_negative(20)(self.fixed(answers), labels)


PROBE = Probe(
    question="Can the last activation return the values of the targets (no negative ones, for example, after a ReLU)?",
    why="the last activation bounds the outputs: for those samples no training brings them to their targets",
    fix=Fix("remove the activation after the last layer, or scale the targets to its range"),
    thresholds={
        "beyond": Threshold(
            0.05,
            "share of targets: of standardised ones half are negative, which a ReLU by mistake cannot answer; outliers "
            "that may be given up, of 3 deviations and more, are 0.3 %",
        )
    },
    detect=detect,
    faulty=with_negative(5),
    healthy=with_negative(2),
    also_healthy=(Features,),
)
