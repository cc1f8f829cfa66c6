from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.sequences import OtherOrder
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(order: OtherOrder, limits: Any) -> Iterator[Hit]:
    if not order.attention:
        raise CannotJudge("a network without attention may count words on purpose")
    if not order.changes:
        yield Hit(
            f"tokens of {order.leaf} in another order get the very same answer, though attention looks at them",
            order.place.beside(loader="train_dataloader", note=order.attention),
        )


RULE = Rule(
    id="network/order-without-effect",
    item="trace",
    question="Does the order of tokens matter to attention?",
    why="attention alone knows no positions: the network sees a bag of words",
    severity=FAILED,
    evidence=OtherOrder,
    judge=judge,
    fix=Fix("add an embedding of positions, or sines of them, to that of the tokens before the first attention"),
    faulty=lambda: OtherOrder("batch['tokens']", "net.encoder", changes=False),
    healthy=lambda: OtherOrder("batch['tokens']", "net.encoder", changes=True),
)
