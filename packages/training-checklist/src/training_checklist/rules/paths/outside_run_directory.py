from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.run_files import OutsideFiles
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(files: OutsideFiles, limits: Any) -> Iterator[Hit]:
    if files.paths:
        named = shown(files.paths, 3)
        yield Hit(f"{files.writer} writes outside the run's directory: {named}", files.place, fix=files.fix)


RULE = Rule(
    id="paths/outside-run-directory",
    item="paths",
    question="Does everything that a run writes lie in its own directory?",
    why="the files of all runs mix there, the next run overwrites them, and none can be told from another",
    severity=FAILED,
    evidence=OutsideFiles,
    judge=judge,
    fix=Fix("write below HydraConfig.get().runtime.output_dir"),
    faulty=lambda: OutsideFiles(
        "callbacks.best (ModelCheckpoint)",
        ["../shared/best.ckpt"],
        Place(key="callbacks.best.dirpath", value="../shared", origin="conf/train.yaml:7"),
        Fix(overrides=("callbacks.best.dirpath=${hydra:runtime.output_dir}/checkpoints",)),
    ),
    healthy=lambda: OutsideFiles(),
)
