from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.schedules import PlateauTurns
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(turns: PlateauTurns, limits: Any) -> Iterator[Hit]:
    if turns.of_validation and turns.stepped % turns.validated:
        yield Hit(
            f"ReduceLROnPlateau is stepped every {turns.stepped} epochs, and {turns.metric}, which it waits for, is "
            f"there every {turns.validated}: training raises MisconfigurationException",
            Place(key="trainer.check_val_every_n_epoch", value=str(turns.validated), note="ReduceLROnPlateau"),
        )


RULE = Rule(
    id="schedule/metric-not-there",
    item="learning",
    question="Is the metric of ReduceLROnPlateau logged whenever Lightning steps it?",
    why="validation does not run in each epoch, and Lightning wants the metric whenever it steps the schedule",
    severity=FAILED,
    evidence=PlateauTurns,
    judge=judge,
    fix=Fix('"frequency": trainer.check_val_every_n_epoch beside "scheduler" in configure_optimizers'),
    faulty=lambda: PlateauTurns("val/loss", stepped=1, validated=2, of_validation=True),
    healthy=lambda: PlateauTurns("val/loss", stepped=2, validated=2, of_validation=True),
)
