from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Monitor
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(watched: Monitor, limits: Any) -> Iterator[Hit]:
    if watched.better is None or watched.mode not in ("min", "max") or watched.mode == watched.better:
        return
    direction = "better" if watched.better == "max" else "worse"
    mark = "" if watched.mode_given else "+"
    yield Hit(
        f"{watched.owner}.mode is {watched.mode}, but more of {watched.monitor} is {direction}",
        watched.place,
        why=f"{watched.kind} takes the worst epoch for the best",
        fix=Fix(overrides=(f"{mark}{watched.owner}.mode={watched.better}",)),
    )


RULE = Rule(
    id="config/mode-reversed",
    item="config",
    question="Is the mode of ModelCheckpoint and EarlyStopping right for their metric (min for a loss)?",
    why="it takes the worst epoch for the best",
    severity=FAILED,
    evidence=Monitor,
    judge=judge,
    fix=Fix("reverse the mode"),
    faulty=lambda: Monitor("callbacks.best", "ModelCheckpoint", "val/acc", "min", True, "max"),
    healthy=lambda: Monitor("callbacks.best", "ModelCheckpoint", "val/acc", "max", True, "max"),
)
