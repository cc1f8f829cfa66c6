from collections.abc import Iterator
from math import isclose
from typing import Any

from training_checklist.evidence.sequences import MorePadding
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(more: MorePadding, limits: Any) -> Iterator[Hit]:
    if more.answers_change is None:
        raise CannotJudge("no criterion shows the answers, so that the loss may have changed with them")
    if not more.answers_change and not isclose(more.loss, more.padded, rel_tol=limits.padding_loss):
        yield Hit(
            f"{more.added} more positions of padding in {more.leaf} change the loss from {more.loss:.5g} to "
            f"{more.padded:.5g}, and no answer to a sequence: the loss counts padding",
            more.place.beside(loader="train_dataloader", note=more.leaf),
        )


RULE = Rule(
    id="network/loss-counts-padding",
    item="trace",
    question="Is the loss the same, however much padding a batch has?",
    why="padding is easily foretold: it makes the loss look low, and batches with a long sequence count less",
    severity=WARNING,
    evidence=MorePadding,
    judge=judge,
    fix=Fix("give padding the criterion's ignore_index as target, or take the mean over positions that are none"),
    faulty=lambda: MorePadding("batch['tokens']", 2, 2.31, 2.22, answers_change=False),
    healthy=lambda: MorePadding("batch['tokens']", 2, 2.31, 2.31, answers_change=False),
    thresholds={
        "padding_loss": Threshold(1e-4, "relative, of losses: float32 in another arrangement of its additions")
    },
)
