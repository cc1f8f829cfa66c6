from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import Draw, Draws
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(seen: Draws, limits: Any) -> Iterator[Hit]:
    for draw in seen.calls:
        yield Hit("what is drawn around answers of the network has no gradient, and the loss depends on it", draw.place)


RULE = Rule(
    id="network/drawn-without-gradient",
    item="trace",
    question="Does the gradient pass through what is drawn at random?",
    why="torch.normal(mean, std) and Normal(mean, std).sample() end the graph: what answers mean and deviation learns "
    "nothing from what becomes of the sample",
    severity=FAILED,
    evidence=Draws,
    judge=judge,
    fix=Fix("draw by rsample(), or mean + std * torch.randn_like(std), which have the gradient"),
    faulty=lambda: Draws([Draw()]),
    healthy=lambda: Draws(),
)
