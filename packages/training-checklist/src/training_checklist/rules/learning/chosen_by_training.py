from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.learning import Chosen
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule


def judge(chosen: Chosen, limits: Any) -> Iterator[Hit]:
    if not chosen.validated:
        raise CannotJudge("validation logs nothing")
    if not chosen.in_validation:
        yield Hit(
            f"{chosen.who} monitors {chosen.metric}, which training logs; validation logs "
            f"{', '.join(chosen.validated[:4])}",
            Place(note=f"{chosen.who}(monitor={chosen.metric!r})"),
        )


RULE = Rule(
    id="learning/chosen-by-training",
    item="learning",
    question="Do ModelCheckpoint and EarlyStopping monitor a metric of validation, and not of training?",
    why="training gets better long after what it learns holds for no other samples",
    severity=WARNING,
    evidence=Chosen,
    judge=judge,
    fix=Fix("monitor a metric of validation"),
    faulty=lambda: Chosen("ModelCheckpoint", "train/loss", ["val/loss"], False),
    healthy=lambda: Chosen("ModelCheckpoint", "val/loss", ["val/loss"], True),
)
