import math
from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import CriterionInput, broadcast, by
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule

REGRESSES = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}


def judge(given: CriterionInput, limits: Any) -> Iterator[Hit]:
    if given.name not in REGRESSES or math.prod(given.target_shape) == 1:
        return
    common = broadcast(given.shape, given.target_shape)
    if common is None or math.prod(common) <= math.prod(given.shape):
        return
    # (1, K, D) against (B, 1, D) compares all with all on purpose: the network's outputs are stretched too.
    meant = len(given.shape) == len(given.target_shape) and math.prod(common) > math.prod(given.target_shape)
    if not meant:
        shapes = f"{by(given.shape)} against {by(given.target_shape)}"
        yield Hit(f"{given.name} gets {shapes}: broadcast to {by(common)}", given.place)


RULE = Rule(
    id="network/criterion-broadcasts",
    item="trace",
    question="Is every output compared with its own target?",
    why="outputs are compared with the targets of others, and the best answer is the mean of all",
    severity=FAILED,
    evidence=CriterionInput,
    judge=judge,
    fix=Fix("give both one shape: target.view_as(output), or output.squeeze(1)"),
    faulty=lambda: CriterionInput("mse_loss", (16, 1), (16,)),
    healthy=lambda: CriterionInput("mse_loss", (16, 1), (1,)),
)
