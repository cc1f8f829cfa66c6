from collections.abc import Iterator
from typing import Any

from training_checklist.engines.chance import CHANCE, at_least
from training_checklist.evidence.labels import LabelCounts, SplitLabels
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(labels: SplitLabels, limits: Any) -> Iterator[Hit]:
    if not labels.train.counts:
        raise CannotJudge("no training labels were seen")
    for split in labels.held_out:
        # That all samples of a class fall into one split, had the data been cut at random.
        share = split.total / (split.total + labels.train.total)
        missing = sorted(set(split.counts) - set(labels.train.counts))
        unseen = [label for label in missing if at_least(split.counts[label], split.counts[label], share) < CHANCE]
        if unseen:
            yield Hit(
                f"class {', '.join(map(str, unseen))} is in {split.name} and not in the training set: "
                f"{sum(split.counts[label] for label in unseen)} of {split.total} labels against none of "
                f"{labels.train.total}",
                split.place,
            )


RULE = Rule(
    id="data/class-unseen-in-training",
    item="limit_batches",
    question="Is every class of the held-out splits in the training set?",
    why="the network cannot learn what it never sees: the data may have been cut where they are sorted by class",
    severity=FAILED,
    evidence=SplitLabels,
    judge=judge,
    fix=Fix("split at random, or by class (stratified)"),
    faulty=lambda: SplitLabels(4, LabelCounts("train", {0: 40, 1: 40, 2: 40}), [LabelCounts("val", {2: 10, 3: 40})]),
    healthy=lambda: SplitLabels(4, LabelCounts("train", {0: 90, 1: 90, 2: 90}), [LabelCounts("val", {2: 27, 3: 3})]),
)
