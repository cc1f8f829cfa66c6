from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.columns import CodesOfSplits
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(codes: CodesOfSplits, limits: Any) -> Iterator[Hit]:
    known = {code: row for code, row in codes.shifts.items() if code in row}
    moved = {code: row for code, row in known.items() if row[code] > limits.code_apart}
    found = {}
    for code, row in moved.items():
        like = min(row, key=row.__getitem__)
        if row[like] < limits.code_alike and row[like] * limits.code_nearer < row[code]:
            found[code] = like
    # One code may have changed with time; that several look like one another's is another list of categories.
    if len(found) > 1 and 2 * len(found) > len(moved) and len(set(found.values())) == len(found):
        pairs = ", ".join(f"what is {code} in training is {like} there" for code, like in list(found.items())[:4])
        yield Hit(f"codes of {codes.column} stand for other categories in {codes.other}: {pairs}", codes.place)


RULE = Rule(
    id="data/codes-of-other-categories",
    item="limit_batches",
    question="Does each code stand for one category in all splits?",
    why="the network looks up what it has learnt of another category",
    severity=FAILED,
    evidence=CodesOfSplits,
    judge=judge,
    fix=Fix("number the categories once, by those of the training set, and use that list for every split"),
    faulty=lambda: CodesOfSplits(
        "val_dataloader", "batch[0]", {1: {1: 9.0, 2: 1.1}, 2: {2: 12.0, 3: 0.8, 1: 14.0}, 3: {3: 11.0, 1: 1.2, 2: 9.0}}
    ),
    healthy=lambda: CodesOfSplits("val_dataloader", "batch[0]", {1: {1: 0.9, 2: 11.0}, 2: {1: 12.0, 2: 1.3}}),
    thresholds={
        "code_apart": Threshold(5.0, "standard errors: chance makes that of one code in a million"),
        "code_alike": Threshold(3.5, "standard errors: chance makes more of one of 2,000 numbers that go with a code"),
        "code_nearer": Threshold(2.0, "times as near to another code of the split as to its own"),
    },
)
