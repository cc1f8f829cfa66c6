from collections import Counter
from collections.abc import Iterator
from typing import Any

from training_checklist.engines.chance import CHANCE, at_least
from training_checklist.evidence.labels import LabelCounts, SplitLabels
from training_checklist.finding import FAILED, WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(labels: SplitLabels, limits: Any) -> Iterator[Hit]:
    splits = [labels.train, *labels.held_out]
    for split in splits:
        if len(split.counts) != 1 or labels.classes < 2:
            continue
        [(label, count)] = split.counts.items()
        others = sum((Counter(other.counts) for other in splits if other is not split), Counter())
        # How often the other splits have that label. Where they have no other one either: as often as not.
        told = len(others) > 1 or (others and label not in others)
        rate = (others[label] + 1) / (others.total() + 1) if told else 0.5
        if at_least(count, count, rate) < CHANCE:
            # Where nothing tells how rare the other class is, it may be that rare.
            rare = labels.classes == 2 and not told
            yield Hit(
                f"all {count} labels of {split.name} are {label}, and the network tells {labels.classes} classes apart",
                split.place,
                severity=WARNING if rare else FAILED,
            )


RULE = Rule(
    id="data/one-class",
    item="limit_batches",
    question="Does every split have more than one class?",
    why="with one class there is nothing to tell apart: any constant answer is right",
    severity=FAILED,
    evidence=SplitLabels,
    judge=judge,
    fix=Fix("split the data at random or by class, and look at how labels are read"),
    faulty=lambda: SplitLabels(10, LabelCounts("train_dataloader", {3: 160})),
    healthy=lambda: SplitLabels(2, LabelCounts("train_dataloader", {0: 990, 1: 10}), [LabelCounts("val", {0: 100})]),
)
