from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import IgnoredTokens
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(tokens: IgnoredTokens, limits: Any) -> Iterator[Hit]:
    if tokens.has_output and tokens.kinds > limits.max_marks:
        yield Hit(
            f"the criterion ignores label {tokens.label}, which is one of the network's classes and the label of "
            f"{tokens.share:.0%} of the tokens, of {tokens.kinds} kinds",
            tokens.place,
        )


RULE = Rule(
    id="data/words-ignored",
    item="limit_batches",
    question="Does the criterion ignore the labels of padding and marks alone?",
    why="the network never learns the class that is ignored, and is asked for it all the same",
    severity=WARNING,
    evidence=IgnoredTokens,
    judge=judge,
    fix=Fix("give padding a label that is no class, as -100, and the criterion that one as ignore_index"),
    faulty=lambda: IgnoredTokens(0, True, 0.7, 240),
    healthy=lambda: IgnoredTokens(0, True, 0.1, 2),
    thresholds={
        "max_marks": Threshold(3, "kinds of tokens that are no words: marks of a beginning, an end and a separation")
    },
)
