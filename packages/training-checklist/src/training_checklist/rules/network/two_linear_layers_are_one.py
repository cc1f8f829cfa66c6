from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import LinearPair, LinearPairsFound
from training_checklist.finding import REMARK, WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(found: LinearPairsFound, limits: Any) -> Iterator[Hit]:
    # A narrower layer between leaves fewer numbers free, which may be meant; a wider one changes nothing.
    pairs = [pair for pair in found.pairs if pair.between >= min(pair.width, pair.out)]
    if pairs:
        first, others = pairs[0], f", and so {len(pairs) - 1} times more" if len(pairs) > 1 else ""
        yield Hit(
            f"nothing but views and dropout stands between {first.first or 'a linear layer'} and the linear layer "
            f"after it ({first.width} -> {first.between} -> {first.out}){others}",
            first.place,
            severity=REMARK if others else None,  # several are a design; published networks have such pairs, and train
        )


RULE = Rule(
    id="network/two-linear-layers-are-one",
    item="trace",
    question="Is there something nonlinear between linear layers?",
    why="their product is one matrix: the second adds nothing that the first could not do",
    severity=WARNING,
    evidence=LinearPairsFound,
    judge=judge,
    fix=Fix("put an activation between the two"),
    faulty=lambda: LinearPairsFound([LinearPair(64, 128, 10)]),
    healthy=lambda: LinearPairsFound([LinearPair(64, 8, 64)]),
)
