from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import RemovedCheckpoint
from training_checklist.finding import WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(removed: RemovedCheckpoint, limits: Any) -> Iterator[Hit]:
    if removed.key and removed.folder:
        yield Hit(
            f"{removed.key} is taken away, so that the Trainer's own default keeps checkpoints, in {removed.folder}",
            removed.place,
        )


RULE = Rule(
    id="paths/checkpoint-callback-removed",
    item="paths",
    question="Are checkpoints kept by the callback that the project has for them?",
    why="the default keeps the last weights and not the best, where the logger or the working directory happens to be",
    severity=WARNING,
    evidence=RemovedCheckpoint,
    judge=judge,
    fix=Fix("keep the callback; to keep no checkpoints:", overrides=("trainer.enable_checkpointing=false",)),
    faulty=lambda: RemovedCheckpoint(
        "callbacks.best", "outputs/1/logs/version_0/checkpoints", Place(key="callbacks.best")
    ),
    healthy=lambda: RemovedCheckpoint(folder="outputs/1/lightning_logs/version_0/checkpoints"),
)
