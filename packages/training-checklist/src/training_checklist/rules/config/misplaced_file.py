from collections.abc import Iterator
from typing import Any

from training_checklist.engines.parameter_names import shown
from training_checklist.evidence.config_values import MisplacedFile
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(file: MisplacedFile, limits: Any) -> Iterator[Hit]:
    if not file.keys:
        return
    yield Hit(
        f"{shown(file.keys, 6)} of {file.option} land in {file.package}.*, where nothing reads them",
        Place(file=file.file, line=1),
        why=f"{file.keys[0]} keeps {file.kept} of another file",
        fix=Fix(f"make '# @package _global_' the first line of {file.file}"),
    )


RULE = Rule(
    id="config/misplaced-file",
    item="config",
    question="Does each config file put its keys into a package in which the code reads them?",
    why="they change nothing there",
    severity=FAILED,
    evidence=MisplacedFile,
    judge=judge,
    fix=Fix("make '# @package _global_' the first line of the file"),
    faulty=lambda: MisplacedFile("experiment=base", "experiment", "conf/experiment/base.yaml", ["lr"], "0.1"),
    healthy=lambda: MisplacedFile("experiment=base", "", "conf/experiment/base.yaml", [], ""),
)
