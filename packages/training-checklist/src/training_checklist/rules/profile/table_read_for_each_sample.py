from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.step_times import TableReads
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(reads: TableReads, limits: Any) -> Iterator[Hit]:
    lost = reads.share * reads.waiting
    if lost > limits.max_in_tables:
        yield Hit(
            f"{reads.place.function} asks a table of pandas for each sample, which takes {reads.share:.0%} of the time "
            f"of loading, and so {lost:.0%} of a step",
            reads.place.beside(loader="train_dataloader"),
        )


RULE = Rule(
    id="profile/table-read-for-each-sample",
    item="profile",
    question="Are tables taken apart before training?",
    why="a look into a table takes pandas some 100 times as long as NumPy or torch, and a search goes through all rows",
    severity=WARNING,
    evidence=TableReads,
    judge=judge,
    fix=Fix("in __init__, make arrays or tensors of the columns, and lists by group; in __getitem__, index them"),
    faulty=lambda: TableReads(0.8, 0.7),
    healthy=lambda: TableReads(0.8, 0.2),
    thresholds={
        "max_in_tables": Threshold(1 / 3, "share of a step: without it, training takes two thirds of the time")
    },
)
