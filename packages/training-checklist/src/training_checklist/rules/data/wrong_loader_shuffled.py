from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Order, Orders
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(orders: Orders, limits: Any) -> Iterator[Hit]:
    if orders.train is None:
        raise CannotJudge("the training loader draws no indices")
    others = [order.place.loader for order in orders.held_out if order.plain and not order.ascending]
    if orders.train.ascending and others:
        yield Hit(
            f"the training set is read in order ({orders.train.sampler}), and {', '.join(others)} is shuffled",
            orders.train.place,
        )


RULE = Rule(
    id="data/wrong-loader-shuffled",
    item="limit_batches",
    question="Is training shuffled where validation is?",
    why="it looks as if shuffle=True had been given to the wrong loader",
    severity=FAILED,
    evidence=Orders,
    judge=judge,
    fix=Fix("shuffle=True for the training loader, shuffle=False for the others"),
    faulty=lambda: Orders(
        Order("SequentialSampler", 160, 160, 160, 80, ascending=True),
        [Order("RandomSampler", 160, 160, 160, 80, ascending=False)],
    ),
    healthy=lambda: Orders(
        Order("SequentialSampler", 160, 160, 160, 80, ascending=True),
        [Order("SequentialSampler", 160, 160, 160, 80, ascending=True)],
    ),
)
