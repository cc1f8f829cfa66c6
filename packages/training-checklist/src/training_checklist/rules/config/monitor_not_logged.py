from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from training_checklist.evidence.config_values import Monitor
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(watched: Monitor, limits: Any) -> Iterator[Hit]:
    if watched.is_logged or watched.logged is None:
        return
    near = get_close_matches(watched.monitor, watched.logged, n=1) or watched.logged[:1]
    fix = Fix(overrides=tuple(f"{watched.owner}.monitor={name}" for name in near))
    known = ", ".join(watched.logged)
    what = f"{watched.owner}.monitor is {watched.monitor}, which nothing logs; logged are {known}"
    yield Hit(what, watched.place, fix=fix)


RULE = Rule(
    id="config/monitor-not-logged",
    item="config",
    question="Is the metric that each callback has as `monitor` logged somewhere in the code?",
    why="the run ends when the metric is looked for, which may be after the first epoch",
    severity=FAILED,
    evidence=Monitor,
    judge=judge,
    fix=Fix("monitor a metric that is logged, or log this one"),
    faulty=lambda: Monitor("callbacks.best", "ModelCheckpoint", "val/accuracy", logged=["val/acc"], is_logged=False),
    healthy=lambda: Monitor("callbacks.best", "ModelCheckpoint", "val/acc", logged=["val/acc"]),
)
