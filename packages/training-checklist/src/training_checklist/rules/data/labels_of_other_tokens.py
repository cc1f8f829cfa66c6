from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import TokenLabels
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(labels: TokenLabels, limits: Any) -> Iterator[Hit]:
    own = labels.errors[0]
    best = min(labels.errors, key=labels.errors.__getitem__)
    fewer = own * labels.labels - labels.errors[best] * labels.labels
    if best and labels.errors[best] <= limits.of_errors * own and fewer > limits.more_errors:
        yield Hit(
            f"{labels.name} belongs to the tokens {abs(best)} {'after' if best > 0 else 'before'} those at its place: "
            f"they tell all but {labels.errors[best]:.1%} of the labels, and {labels.tokens} at the same place all "
            f"but {own:.1%}",
            labels.place.beside(note=labels.name),
        )


RULE = Rule(
    id="data/labels-of-other-tokens",
    item="limit_batches",
    question="Do labels of tokens stand at the places of their tokens?",
    why="a mark was put in front of the tokens, or a part cut off, and not of their labels",
    severity=FAILED,
    evidence=TokenLabels,
    judge=judge,
    fix=Fix("add marks, cut and pad tokens and labels in one function, with the ignored label for each mark"),
    faulty=lambda: TokenLabels("batch['tags']", "batch['ids']", 4000, {-1: 0.3, 0: 0.21, 1: 0.02}),
    healthy=lambda: TokenLabels("batch['tags']", "batch['ids']", 4000, {-1: 0.15, 0: 0.02, 1: 0.21}),
    thresholds={
        "of_errors": Threshold(
            1 / 3, "of the errors: a word in front, such as a preposition, tells a label nearly as well as its own"
        ),
        "more_errors": Threshold(30, "labels: fewer may be told by chance, as texts often repeat a few sentences"),
    },
)
