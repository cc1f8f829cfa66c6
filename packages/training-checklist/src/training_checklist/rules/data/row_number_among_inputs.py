from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.columns import RowNumbers
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(numbers: RowNumbers, limits: Any) -> Iterator[Hit]:
    # A single column is what a demonstration is about.
    if numbers.names and numbers.columns > 1:
        yield Hit(
            f"{', '.join(numbers.names)} has another whole number for each of {numbers.rows} rows, one after the "
            f"other: an identifier, or the number of the row",
            numbers.place,
        )


RULE = Rule(
    id="data/row-number-among-inputs",
    item="limit_batches",
    question="Are identifiers kept out of the inputs?",
    why="the order in which rows were collected or exported often tells their targets, and nothing of the rows to come",
    severity=WARNING,
    evidence=RowNumbers,
    judge=judge,
    fix=Fix("take the column out of the inputs, unless it is a time that will go on"),
    faulty=lambda: RowNumbers(["batch['numeric'][:, 0]"], 5000, 8),
    healthy=lambda: RowNumbers([], 5000, 8),
)
