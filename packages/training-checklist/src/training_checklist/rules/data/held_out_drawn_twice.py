from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.loading import Order, Orders
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(orders: Orders, limits: Any) -> Iterator[Hit]:
    for order in orders.held_out:
        if order.plain and order.distinct < order.drawn:
            yield Hit(
                f"{order.sampler} draws {order.distinct} different samples of {order.place.loader} in {order.drawn} "
                "draws: some are counted more than once",
                order.place,
            )


RULE = Rule(
    id="data/held-out-drawn-twice",
    item="limit_batches",
    question="Is every held-out sample measured once?",
    why="metrics weigh samples by how often they are drawn, and change with every pass where that is random",
    severity=WARNING,
    evidence=Orders,
    judge=judge,
    fix=Fix("no sampler and shuffle=False for validation and testing"),
    faulty=lambda: Orders(None, [Order("RandomSampler", 100, 100, distinct=63, new=24, ascending=False)]),
    healthy=lambda: Orders(None, [Order("SequentialSampler", 100, 100, distinct=100, new=50, ascending=True)]),
)
