from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Neighbours
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(neighbours: Neighbours, limits: Any) -> Iterator[Hit]:
    place, share = max(neighbours.shares.items(), key=lambda pair: pair[1], default=("", 0.0))
    if share > limits.max_between:
        yield Hit(
            f"the training set is read in order ({neighbours.sampler}), and samples that follow one another are alike: "
            f"their {place} correlate with {share:.2f}, of {neighbours.samples} samples",
            neighbours.place,
        )


RULE = Rule(
    id="data/neighbours-in-one-batch",
    item="limit_batches",
    question="Is each batch drawn from all over the training set?",
    why="windows of one series, or rows of one person, follow one another: each step learns these and forgets others, "
    "and the last ones of an epoch are favoured",
    severity=WARNING,
    evidence=Neighbours,
    judge=judge,
    fix=Fix("shuffle=True in train_dataloader, unless the network carries its state from one batch to the next"),
    faulty=lambda: Neighbours("SequentialSampler", {"batch[0]": 0.7}, 128),
    healthy=lambda: Neighbours("SequentialSampler", {"batch[0]": 0.02}, 128),
    thresholds={
        "max_between": Threshold(
            0.5, "share of the variance: less is within a batch than between batches; 0 in any order that is drawn"
        )
    },
)
