from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.config_values import Leftover
from training_checklist.finding import WARNING, Fix
from training_checklist.rule import Hit, Rule


def judge(setting: Leftover, limits: Any) -> Iterator[Hit]:
    if setting.key:
        yield Hit(f"{setting.key}={setting.value} {setting.does}", setting.place)


RULE = Rule(
    id="config/left-from-debugging",
    item="config",
    question="Are overfit_batches, fast_dev_run, detect_anomaly and small limit_*_batches off in a training?",
    why="set in a file for a look at a few batches and left there, it makes each later training another one",
    severity=WARNING,
    evidence=Leftover,
    judge=judge,
    fix=Fix("take it out of the file, and give it on the command line for the run that needs it"),
    faulty=lambda: Leftover("trainer.overfit_batches", "2", "trains on the same few batches again and again"),
    healthy=lambda: Leftover(""),
)
