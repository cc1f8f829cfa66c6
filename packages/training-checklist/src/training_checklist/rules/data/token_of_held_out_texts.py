from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.labels import HeldOutToken
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule, Threshold


def judge(token: HeldOutToken, limits: Any) -> Iterator[Hit]:
    if token.share > limits.min_share_held_out and token.share > limits.times_as_often * token.train:
        yield Hit(
            f"token {token.token} is {token.share:.0%} of the tokens of {token.split} in {token.name}, and "
            f"{token.train:.1%} in training",
            token.place,
        )


RULE = Rule(
    id="data/token-of-held-out-texts",
    item="limit_batches",
    question="Are held-out texts made of the tokens that training texts are made of?",
    why="if this is the token for unknown words, held-out texts are cleaned, split or encoded otherwise than the texts "
    "that the vocabulary was made of",
    severity=WARNING,
    evidence=HeldOutToken,
    judge=judge,
    fix=Fix("look up what the token stands for; clean and encode all texts by one function"),
    faulty=lambda: HeldOutToken("batch['ids']", "val_dataloader", 1, 0.31, 0.01),
    healthy=lambda: HeldOutToken("batch['ids']", "val_dataloader", 1, 0.04, 0.0),
    thresholds={
        "min_share_held_out": Threshold(
            0.1, "of the tokens: of words that stand once in a text, a vocabulary of its half misses about so many"
        ),
        "times_as_often": Threshold(3, "as in training: words of one topic are twice as frequent in texts about it"),
    },
)
