import math
from collections.abc import Iterator
from typing import Any

from training_checklist.engines.chance import CHANCE
from training_checklist.evidence.labels import LabelRuns
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(labels: LabelRuns, limits: Any) -> Iterator[Hit]:
    if len(labels.counts) < 2:
        raise CannotJudge("fewer than two classes were seen")
    # One run a class: so many orders of all orders that these labels can have.
    sorted_orders = math.lgamma(len(labels.counts) + 1) + sum(math.lgamma(count + 1) for count in labels.counts)
    likely = sorted_orders - math.lgamma(sum(labels.counts) + 1) > math.log(CHANCE)
    if labels.runs == len(labels.counts) and not likely:
        yield Hit(
            f"the training set is read in order ({labels.sampler}), and it is sorted by class: {labels.runs} runs of "
            f"equal labels in {sum(labels.counts)}",
            labels.place,
        )


RULE = Rule(
    id="data/sorted-by-class",
    item="limit_batches",
    question="Are classes mixed in the order in which training reads them?",
    why="every batch holds one class or two: the network forgets the others, and the loss swings",
    severity=FAILED,
    evidence=LabelRuns,
    judge=judge,
    fix=Fix("shuffle=True in train_dataloader"),
    faulty=lambda: LabelRuns("SequentialSampler", [40, 40, 40, 40], runs=4),
    healthy=lambda: LabelRuns("SequentialSampler", [2, 3], runs=2),
)
