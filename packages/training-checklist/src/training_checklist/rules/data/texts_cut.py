from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import TextLengths
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(lengths: TextLengths, limits: Any) -> Iterator[Hit]:
    if lengths.cut > limits.max_cut * lengths.texts:
        yield Hit(
            f"{lengths.cut} of {lengths.texts} texts have {lengths.longest} tokens, and none has more: they are cut "
            "there",
            lengths.place,
        )


RULE = Rule(
    id="data/texts-cut",
    item="limit_batches",
    question="Are most texts shorter than the greatest length?",
    why="what stands behind the cut is neither learnt nor measured, and labels there are lost without a word",
    severity=WARNING,
    evidence=TextLengths,
    judge=judge,
    fix=Fix("a greater length, or windows of each text; see how long texts are before they are cut"),
    faulty=lambda: TextLengths(16, 140, 200),
    healthy=lambda: TextLengths(96, 3, 200),
    thresholds={
        "max_cut": Threshold(0.5, "of the texts: then the median text is one that is cut, and not an exception")
    },
)
