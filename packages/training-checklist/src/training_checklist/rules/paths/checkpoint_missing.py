from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import Checkpoints
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(kept: Checkpoints, limits: Any) -> Iterator[Hit]:
    if kept.empty:
        yield Hit(f"{kept.empty[0]} is empty", kept.place)
    elif kept.due and not kept.paths:
        yield Hit("no checkpoint was written in an epoch", kept.place)


RULE = Rule(
    id="paths/checkpoint-missing",
    item="paths",
    question="Has every checkpoint callback written what its arguments say?",
    why="the weights of the run are lost when it ends",
    severity=FAILED,
    evidence=Checkpoints,
    judge=judge,
    fix=Fix("look at the arguments of ModelCheckpoint"),
    faulty=lambda: Checkpoints(due=True),
    healthy=lambda: Checkpoints(due=True, paths=["outputs/1/checkpoints/last.ckpt"]),
)
