from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import Mask
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(mask: Mask, limits: Any) -> Iterator[Hit]:
    if not mask.matters:
        held = "how long samples are without their padding"
        if mask.zeros is not None:
            held = f"0 for {mask.zeros:.0%} of what it covers and 1 for the rest"
        yield Hit(f"the training loss is the same whatever stands in {mask.name}, which is {held}", mask.place)


RULE = Rule(
    id="data/mask-without-effect",
    item="limit_batches",
    question="Does training ask for the masks that samples come with?",
    why="what a mask leaves out (missing values, hidden points, padding) counts as if it had been measured",
    severity=WARNING,
    evidence=Mask,
    judge=judge,
    fix=Fix(
        "ask for it where the loss, attention or a mean over time would read what it leaves out, at the resolution "
        "that they have: (loss * mask).sum() / mask.sum()"
    ),
    faulty=lambda: Mask("batch['mask']", 0.1, matters=False),
    healthy=lambda: Mask("batch['mask']", 0.1, matters=True),
)
