from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import NotFinite
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(wrong: NotFinite, limits: Any) -> Iterator[Hit]:
    if wrong.values:
        yield Hit(
            f"{wrong.values} values of {wrong.leaf} are {wrong.kind}, in {wrong.samples} of {wrong.of} samples",
            wrong.place,
        )


RULE = Rule(
    id="data/value-not-finite",
    item="limit_batches",
    question="Is everything finite that enters the network and the criterion?",
    why="one such value makes the loss NaN, and after the next step every weight",
    severity=FAILED,
    evidence=NotFinite,
    judge=judge,
    fix=Fix("look at that sample; drop or repair it in the dataset"),
    faulty=lambda: NotFinite("batch[0]", "NaN", values=3, samples=1, of=64),
    healthy=lambda: NotFinite("batch[0]", "", values=0, samples=0, of=64),
)
