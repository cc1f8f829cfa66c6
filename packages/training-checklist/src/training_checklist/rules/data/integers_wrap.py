from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Wrapped
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(wrapped: Wrapped, limits: Any) -> Iterator[Hit]:
    if wrapped.type:
        yield Hit(
            f"values from {wrapped.low:g} to {wrapped.high:g} go into {wrapped.type}, which has no room for them",
            wrapped.place.beside(loader="train_dataloader"),
        )


RULE = Rule(
    id="data/integers-wrap",
    item="limit_batches",
    question="Do whole numbers fit into their type?",
    why="what is too large begins anew at the other end: a bright pixel becomes a dark one",
    severity=FAILED,
    evidence=Wrapped,
    judge=judge,
    fix=Fix("compute in float32, and clamp before the cast: values.clamp(0, 255).to(torch.uint8)"),
    faulty=lambda: Wrapped("uint8", -12.0, 290.0),
    healthy=lambda: Wrapped(""),
)
