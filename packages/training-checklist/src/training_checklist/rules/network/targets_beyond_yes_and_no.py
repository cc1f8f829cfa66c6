from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import TargetsBeyond
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(targets: TargetsBeyond, limits: Any) -> Iterator[Hit]:
    if targets.beyond:
        yield Hit(
            f"binary cross-entropy counts {targets.beyond} of {targets.number} targets that lie outside of 0 to 1: "
            f"they go from {targets.low:g} to {targets.high:g}",
            targets.place,
        )


RULE = Rule(
    id="network/targets-beyond-yes-and-no",
    item="trace",
    question="Does binary cross-entropy count targets from 0 to 1 alone?",
    why="beyond 0 and 1 the loss has no least value: a mark for a missing or uncertain label pulls a logit without end",
    severity=FAILED,
    evidence=TargetsBeyond,
    judge=judge,
    fix=Fix("map the mark to a number between 0 and 1, or give it a weight of 0; divide labels of 0 and 255 by 255"),
    faulty=lambda: TargetsBeyond(12, 160, -1.0, 1.0),
    # Marks that a mask leaves out.
    healthy=lambda: TargetsBeyond(0, 160, -1.0, 1.0),
)
