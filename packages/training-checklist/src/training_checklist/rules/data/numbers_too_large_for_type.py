from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import CoarseNumbers
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(numbers: CoarseNumbers, limits: Any) -> Iterator[Hit]:
    if numbers.largest > numbers.limit:
        yield Hit(
            f"{numbers.name} holds whole numbers up to {numbers.largest:.0f} as {numbers.type}, which has not "
            f"every one beyond {numbers.limit}: neighbours become the same number",
            numbers.place,
        )


RULE = Rule(
    id="data/numbers-too-large-for-type",
    item="limit_batches",
    question="Are whole numbers kept in a type that tells them apart?",
    why="float32 has 24 binary digits, float16 11 and bfloat16 8: identifiers and times beyond them collide",
    severity=WARNING,
    evidence=CoarseNumbers,
    judge=judge,
    fix=Fix("keep identifiers and times in int64, beside the inputs; give the network the difference to a first time"),
    faulty=lambda: CoarseNumbers("batch['id']", "float32", 2.0e9, 2**24),
    healthy=lambda: CoarseNumbers("batch['id']", "float32", 5000.0, 2**24),
)
