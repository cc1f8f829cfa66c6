from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.values import TokenRange
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(tokens: TokenRange, limits: Any) -> Iterator[Hit]:
    if tokens.outside:
        named = ", ".join(map(str, tokens.outside[:5]))
        yield Hit(
            f"index {named} in {tokens.leaf}, but the embedding that it enters has {tokens.rows} rows "
            f"(0..{tokens.rows - 1}); {tokens.count} of {tokens.of} indices are outside",
            tokens.place,
        )


RULE = Rule(
    id="data/token-out-of-range",
    item="limit_batches",
    question="Has the embedding a row for every token or category?",
    why="the table is read at that row: an IndexError, or a crash of the GPU",
    severity=FAILED,
    evidence=TokenRange,
    judge=judge,
    fix=Fix("num_embeddings of at least the largest index + 1; count special tokens and unknown categories too"),
    faulty=lambda: TokenRange([100], count=2, of=512, rows=100, leaf="batch['tokens']"),
    healthy=lambda: TokenRange([], count=0, of=512, rows=100, leaf="batch['tokens']"),
)
