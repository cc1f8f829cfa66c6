from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import ClassCounts
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(counts: ClassCounts, limits: Any) -> Iterator[Hit]:
    for path, classes in counts.metrics.items():
        if counts.outputs < classes:
            yield Hit(
                f"the network has {counts.outputs} outputs but {path} counts {classes} classes",
                counts.place,
                fix=Fix(f"give the last layer {classes} outputs, or the metric num_classes={counts.outputs}"),
            )


RULE = Rule(
    id="network/fewer-outputs-than-classes",
    item="trace",
    question="Has the network an output for each class that its metrics count?",
    why="labels of the classes that it has no output for end training with an error",
    severity=FAILED,
    evidence=ClassCounts,
    judge=judge,
    fix=Fix("give the last layer an output for each class"),
    faulty=lambda: ClassCounts(4, {"accuracy": 5}),
    healthy=lambda: ClassCounts(4, {"accuracy": 4}),
)
