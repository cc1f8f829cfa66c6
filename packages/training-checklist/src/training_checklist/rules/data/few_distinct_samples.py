from collections.abc import Iterator
from typing import Any

from training_checklist.engines.chance import CHANCE, at_least
from training_checklist.evidence.loading import Order, Orders
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(orders: Orders, limits: Any) -> Iterator[Hit]:
    order = orders.train
    if order is None:
        raise CannotJudge("the training loader draws no indices")
    # Weights make draws uneven, but hardly ever keep the second half of an epoch from bringing any sample anew.
    later = order.drawn // 2
    exhausted = order.new == 0 and order.distinct < min(order.drawn, order.samples)
    if exhausted and at_least(later, later, order.distinct / order.samples) < CHANCE:
        yield Hit(
            f"{order.sampler} draws {order.distinct} different samples again and again, {order.drawn} times in all; "
            f"{order.samples - order.distinct} of the {order.samples} samples of the training set are never drawn",
            order.place,
        )


RULE = Rule(
    id="data/few-distinct-samples",
    item="limit_batches",
    question="Can every sample of the training set be drawn, where some are drawn many times?",
    why="the network learns those few by heart and never sees the others",
    severity=FAILED,
    evidence=Orders,
    judge=judge,
    fix=Fix("WeightedRandomSampler takes one weight for each sample, as in weights_of_classes[labels]"),
    faulty=lambda: Orders(Order("WeightedRandomSampler", 1280, 1280, distinct=10, new=0, ascending=False)),
    # Class weights over a long-tailed dataset.
    healthy=lambda: Orders(Order("WeightedRandomSampler", 1280, 1280, distinct=530, new=190, ascending=False)),
)
