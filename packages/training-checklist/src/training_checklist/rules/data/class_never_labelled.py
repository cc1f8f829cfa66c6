from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import LabelledClasses
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(labels: LabelledClasses, limits: Any) -> Iterator[Hit]:
    if labels.obstacle:
        raise CannotJudge(labels.obstacle)
    missing = sorted(set(range(labels.classes)) - set(labels.counts))
    if missing and labels.counts:
        yield Hit(
            f"class {', '.join(map(str, missing[:10]))} of {labels.classes} has not one label in any split, of "
            f"{sum(labels.counts.values())} that were counted",
            labels.place,
        )


RULE = Rule(
    id="data/class-never-labelled",
    item="limit_batches",
    question="Does every class that the network answers have labels?",
    why="its output learns to be never right, and no metric tells: a map of codes to classes may have lost it, or the "
    "number of classes is too large",
    severity=WARNING,
    evidence=LabelledClasses,
    judge=judge,
    fix=Fix("compare the codes in the files with the map to classes, and with num_classes"),
    faulty=lambda: LabelledClasses(3, {0: 50, 1: 50}),
    healthy=lambda: LabelledClasses(3, {0: 50, 1: 50, 2: 1}),
)
