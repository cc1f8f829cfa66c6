from collections.abc import Iterator
from math import isclose
from typing import Any

from training_checklist.evidence.sequences import MorePadding
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import CannotJudge, Hit, Rule, Threshold


def judge(more: MorePadding, limits: Any) -> Iterator[Hit]:
    changes = more.answers_change
    if changes is None:
        changes = not isclose(more.loss, more.padded, rel_tol=limits.padding_answers)
    if not changes:
        return
    if more.over_time:
        raise CannotJudge(f"{', '.join(more.over_time)} may read padding on purpose")
    yield Hit(
        f"{more.added} more positions of padding in {more.leaf} change the answers for the same sequences: the loss is "
        f"{more.padded:.5g} and not {more.loss:.5g}",
        more.place.beside(loader="train_dataloader", note=more.leaf),
    )


RULE = Rule(
    id="network/reads-padding",
    item="trace",
    question="Is a sequence answered alike, however much padding it has?",
    why="padding takes part in attention or in a mean over positions: the answer to a sequence depends on the longest "
    "one in its batch",
    severity=WARNING,
    evidence=MorePadding,
    judge=judge,
    fix=Fix("give attention the padding mask (True where padding is), and take means over positions that are none"),
    faulty=lambda: MorePadding("batch['tokens']", 2, 2.31, 2.29, answers_change=True),
    healthy=lambda: MorePadding("batch['tokens']", 2, 2.31, 2.31, answers_change=False),
    thresholds={
        "padding_answers": Threshold(1e-4, "relative, of losses: float32 in another arrangement of its additions")
    },
)
