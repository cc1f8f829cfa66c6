from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import LoggedValues
from training_checklist.finding import FAILED, REMARK, Fix
from training_checklist.rule import Hit, Rule


def judge(values: LoggedValues, limits: Any) -> Iterator[Hit]:
    if values.count:
        return
    what = f"{values.file} is missing in" if values.count is None else f"{values.file} holds no values, in"
    if values.logged:
        why = "metrics were logged, but not one has reached the file: nobody can look at the run later"
        fix = Fix("look for self.log(..., logger=False), and for a logger that is closed or replaced too early")
        yield Hit(f"{what} {values.folder}", values.place, why=why, fix=fix)
    else:
        yield Hit(f"{what} {values.folder}", values.place, severity=None if values.asked else REMARK)


RULE = Rule(
    id="paths/nothing-logged",
    item="paths",
    question="Do the logger's files hold values?",
    why="nothing was logged in training or validation: nobody can look at the run later",
    severity=FAILED,
    evidence=LoggedValues,
    judge=judge,
    fix=Fix("in training_step and validation_step: self.log('train/loss', loss)"),
    faulty=lambda: LoggedValues("the event file", "outputs/1/tensorboard", 0, logged=False),
    healthy=lambda: LoggedValues("the event file", "outputs/1/tensorboard", 3, logged=True),
)
