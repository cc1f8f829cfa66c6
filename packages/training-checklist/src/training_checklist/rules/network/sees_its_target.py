from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.sequences import OwnTarget
from training_checklist.finding import FAILED, REMARK, Fix
from training_checklist.rule import Hit, Rule


def judge(own: OwnTarget, limits: Any) -> Iterator[Hit]:
    severity = REMARK if own.forced else None  # a decoder may be taught by what it is to answer
    if own.shift and own.sees_target:
        yield Hit(
            f"the target of a position is the next token of {own.leaf}, and the answer there changes with that very "
            "token",
            own.place.beside(loader="train_dataloader", note=own.leaf),
            severity=severity,
        )
    elif not own.shift and own.sees_target and not own.sees_next:
        yield Hit(
            f"the target of a position is the token of {own.leaf} that stands there, which the network sees, and none "
            "after it",
            own.place.beside(loader="train_dataloader", note=own.leaf),
            "it copies what it is given: nothing has to be foretold",
            Fix("shift by one: logits[:, :-1] against tokens[:, 1:], or so in the collate function"),
            severity,
        )


RULE = Rule(
    id="network/sees-its-target",
    item="trace",
    question="Does a network that foretells tokens not see the one that it foretells?",
    why="it copies the answer from its input; where text is generated there is nothing to copy",
    severity=FAILED,
    evidence=OwnTarget,
    judge=judge,
    fix=Fix(
        "let no position see a later one: a causal mask in every layer of attention, padding of convolutions on "
        "the left only, recurrent layers in one direction"
    ),
    faulty=lambda: OwnTarget("batch['tokens']", 1, sees_target=True, sees_next=True),
    # A text that is encoded as a whole and decoded again.
    healthy=lambda: OwnTarget("batch['tokens']", 0, sees_target=True, sees_next=True),
)
