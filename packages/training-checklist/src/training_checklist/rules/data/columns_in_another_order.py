from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.columns import ColumnsOfSplits
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(splits: ColumnsOfSplits, limits: Any) -> Iterator[Hit]:
    moved = [index for index, row in enumerate(splits.shifts) if row[index] > limits.apart]
    found: dict[int, int] = {}
    for index in moved:
        like = [other for other in moved if splits.shifts[index][other] < limits.alike]
        if len(like) != 1:  # none: the data are others; several: they do not tell
            return
        found[index] = like[0]
    if moved and len(set(found.values())) == len(found):
        pairs = ", ".join(f"{index} is like {other} there" for index, other in list(found.items())[:4])
        yield Hit(f"columns of {splits.other} look like other ones of the training set: {pairs}", splits.place)


RULE = Rule(
    id="data/columns-in-another-order",
    item="limit_batches",
    question="Do columns and channels stand in the same order in all splits?",
    why="the weights of each column were learnt for another one",
    severity=FAILED,
    evidence=ColumnsOfSplits,
    judge=judge,
    fix=Fix("read columns by name, in one order that all splits share"),
    faulty=lambda: ColumnsOfSplits("val_dataloader", [[30.0, 0.8, 50.0], [1.1, 31.0, 50.0], [50.0, 50.0, 0.4]]),
    healthy=lambda: ColumnsOfSplits("val_dataloader", [[30.0, 25.0, 50.0], [20.0, 1.0, 50.0], [50.0, 50.0, 0.4]]),
    thresholds={
        "apart": Threshold(8.0, "standard errors: chance makes that once in 10^15 columns"),
        "alike": Threshold(4.0, "standard errors: chance makes more of columns that are one in 6 of 100,000"),
    },
)
