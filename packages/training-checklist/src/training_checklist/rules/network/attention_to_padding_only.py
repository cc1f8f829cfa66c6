from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import PaddingMask, PaddingMasks
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(masks: PaddingMasks, limits: Any) -> Iterator[Hit]:
    for mask in masks.calls:
        if mask.inverted:
            yield Hit("key_padding_mask leaves out every token but the padding", mask.place)


RULE = Rule(
    id="network/attention-to-padding-only",
    item="trace",
    question="Does attention leave out the padding, and nothing else?",
    why="in key_padding_mask True means: leave this one out; attention looks at what carries no meaning",
    severity=FAILED,
    evidence=PaddingMasks,
    judge=judge,
    fix=Fix("invert the mask: key_padding_mask=(ids == padding_idx)"),
    faulty=lambda: PaddingMasks([PaddingMask(inverted=True)]),
    healthy=lambda: PaddingMasks([PaddingMask(inverted=False)]),
)
