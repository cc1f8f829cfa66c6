from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import RecordFile
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(file: RecordFile, limits: Any) -> Iterator[Hit]:
    if file.path is None:
        fix = Fix(overrides=(f"{file.place.key}={file.inside_path}",))
        yield Hit("there is no .hydra with the run's config", file.place, fix=fix, severity=WARNING)
    elif not file.exists:
        yield Hit(f"{file.path} is missing", file.place)


RULE = Rule(
    id="paths/record-missing",
    item="paths",
    question="Are the run's config and log all there?",
    why="nobody can tell later what was run",
    severity=FAILED,
    evidence=RecordFile,
    judge=judge,
    fix=Fix("look at what removes it"),
    faulty=lambda: RecordFile("outputs/1/.hydra/config.yaml", False, True, Place(key="hydra.output_subdir")),
    healthy=lambda: RecordFile("outputs/1/.hydra/config.yaml", True, True),
)
