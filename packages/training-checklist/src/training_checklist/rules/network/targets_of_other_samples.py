from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.network import LinedUp
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(lined_up: LinedUp, limits: Any) -> Iterator[Hit]:
    if not lined_up.answers or not lined_up.targets:
        raise CannotJudge("no change of a sample changes answers and targets of the criterion")
    # Some of them fall together by chance, as the first and the last position of a transpose do.
    if 2 * lined_up.both < lined_up.targets:
        yield Hit(
            f"where one sample changes, {lined_up.targets} targets of the criterion do, of which {lined_up.both} are "
            f"compared with answers to that sample ({lined_up.answers} of these)",
            lined_up.place,
        )


RULE = Rule(
    id="network/targets-of-other-samples",
    item="trace",
    question="Is each answer compared with the target of its own sample?",
    why="answers and targets are flattened, transposed or sorted in different orders on their way to the criterion",
    severity=FAILED,
    evidence=LinedUp,
    judge=judge,
    fix=Fix("flatten both in one order: logits.flatten(0, 1) of (B, T, C) goes with labels.flatten() of (B, T)"),
    faulty=lambda: LinedUp(24, 24, 3),
    healthy=lambda: LinedUp(24, 22, 22),
)
