from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.columns import Column, Columns
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(table: Columns, limits: Any) -> Iterator[Hit]:
    for column in table.columns:
        if column.count < limits.samples or column.kinds < limits.kinds:
            continue
        if abs(column.value - column.nearest) > column.spread:
            yield Hit(
                f"{column.name} is {column.value:.4g} in {column.count} of {table.samples} samples, and at most "
                f"{column.spread:.4g} apart in the others, of which the nearest is {column.nearest:.4g}",
                table.place.beside(note=column.name),
            )


RULE = Rule(
    id="data/filler-among-values",
    item="limit_batches",
    question="Does no column hold one number far away from all others, again and again?",
    why="such a number stands for a value that is missing, and the network takes it for a measurement",
    severity=WARNING,
    evidence=Columns,
    judge=judge,
    fix=Fix(
        "fill what is missing with the mean, after standardising with 0, and tell the network in a column of its own"
    ),
    faulty=lambda: Columns([Column("batch[0][:, 2]", -29.1, 40, -2.6, 5.2, 560)], 600),
    healthy=lambda: Columns([Column("batch[0][:, 2]", -3.1, 40, -2.6, 5.2, 560)], 600),
    thresholds={
        "samples": Threshold(3, "samples with the very same number: of continuous measurements two hardly have one"),
        "kinds": Threshold(20, "different values among the others: scales of answers and counts of rooms have fewer"),
    },
)
