from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import RecordFile
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(file: RecordFile, limits: Any) -> Iterator[Hit]:
    if file.exists and not file.inside:
        fix = Fix(overrides=(f"{file.place.key}={file.inside_path}",))
        yield Hit(f"the log of the run lies outside its directory: {file.path}", file.place, fix=fix)


RULE = Rule(
    id="paths/log-outside",
    item="paths",
    question="Does the run's log lie in its directory?",
    why="the logs of all runs mix there",
    severity=FAILED,
    evidence=RecordFile,
    judge=judge,
    fix=Fix("give the handler a file name below ${hydra:runtime.output_dir}"),
    faulty=lambda: RecordFile(
        "train.log", True, False, Place(key="hydra.job_logging.handlers.file.filename"), "train.log"
    ),
    healthy=lambda: RecordFile("outputs/1/train.log", True, True),
)
