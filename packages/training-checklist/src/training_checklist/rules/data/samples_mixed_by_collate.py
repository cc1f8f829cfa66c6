from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Company
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(company: Company, limits: Any) -> Iterator[Hit]:
    if company.samples and company.differ == company.samples:
        yield Hit(
            f"{company.leaf} of a sample depends on the other samples of its batch: alone, each of {company.samples} "
            f"has other values than together",
            company.place,
        )


RULE = Rule(
    id="data/samples-mixed-by-collate",
    item="limit_batches",
    question="Is a sample the same whatever the batch that it comes in?",
    why="what the network is given changes with batch size, order and the last batch; one sample alone means nothing",
    severity=WARNING,
    evidence=Company,
    judge=judge,
    fix=Fix("use statistics of the whole training set in collate_fn and in transfer hooks, not those of the batch"),
    faulty=lambda: Company("batch['numbers']", 8, differ=8),
    healthy=lambda: Company("batch['numbers']", 8, differ=0),
)
