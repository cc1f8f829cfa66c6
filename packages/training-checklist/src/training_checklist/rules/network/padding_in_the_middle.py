from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import PaddingMask, PaddingMasks
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(masks: PaddingMasks, limits: Any) -> Iterator[Hit]:
    for mask in masks.calls:
        if mask.inside and mask.token is not None:
            yield Hit(
                f"what counts as padding stands between other tokens in {mask.inside} of {mask.rows} sequences: token "
                f"{mask.token}",
                mask.place,
            )
            return


RULE = Rule(
    id="network/padding-in-the-middle",
    item="trace",
    question="Does padding stand at the ends of sequences alone?",
    why="a token of the text, such as that for unknown words, has the id of the padding, and is left out with it",
    severity=WARNING,
    evidence=PaddingMasks,
    judge=judge,
    fix=Fix("give the padding an id of its own"),
    faulty=lambda: PaddingMasks([PaddingMask(inverted=False, inside=12, token=0, rows=32)]),
    healthy=lambda: PaddingMasks([PaddingMask(inverted=False, rows=32)]),
)
