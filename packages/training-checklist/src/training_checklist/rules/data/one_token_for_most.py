from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import TokenShare
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(token: TokenShare, limits: Any) -> Iterator[Hit]:
    if token.rows >= limits.min_tokens and token.share > limits.max_token_share:
        yield Hit(
            f"{token.share:.0%} of the tokens in {token.name} are {token.token}, of an embedding with {token.rows} "
            f"rows",
            token.place,
        )


RULE = Rule(
    id="data/one-token-for-most",
    item="limit_batches",
    question="Do texts consist of different tokens?",
    why="if this is the token for unknown words, the vocabulary was made of other words than texts are encoded with: "
    "of another case, another split, or another language",
    severity=WARNING,
    evidence=TokenShare,
    judge=judge,
    fix=Fix("look up what the token stands for; clean and split texts by one function, for the vocabulary and after"),
    faulty=lambda: TokenShare("batch['ids']", 1, 0.4, 5000),
    healthy=lambda: TokenShare("batch['ids']", 7, 0.07, 5000),
    thresholds={
        "max_token_share": Threshold(
            1 / 3, "of the tokens: the most frequent word of a language is some 7% of its words, a space 18% of letters"
        ),
        "min_tokens": Threshold(100, "rows: of few kinds of tokens, as in DNA or music, one may be most of them"),
    },
)
