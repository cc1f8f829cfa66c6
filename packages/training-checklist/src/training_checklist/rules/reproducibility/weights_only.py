from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import SavedCheckpoints
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(saved: SavedCheckpoints, limits: Any) -> Iterator[Hit]:
    if not saved.keepers:
        raise CannotJudge("the run keeps no checkpoint")
    if not saved.weights_only or saved.whole:
        return
    for place in saved.keys or [Place(source="ModelCheckpoint(save_weights_only=True)")]:
        fix = Fix(overrides=(f"{place.key}=false",)) if place.key else None
        yield Hit("no checkpoint of this run can be resumed: they hold weights only", place, fix=fix)


RULE = Rule(
    id="reproducibility/weights-only",
    item="reproducibility",
    question="Do checkpoints hold optimizer states and loops, and not only weights?",
    why="no optimizer, scheduler, epoch or step is in the file: a run that is interrupted begins anew",
    severity=FAILED,
    evidence=SavedCheckpoints,
    judge=judge,
    fix=Fix("save_weights_only=False for the one that is resumed from"),
    faulty=lambda: SavedCheckpoints(1, weights_only=True),
    healthy=lambda: SavedCheckpoints(2, weights_only=True, whole=True),
)
