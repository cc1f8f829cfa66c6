from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import ResumedFolder
from training_checklist.finding import FAILED, Fix
from training_checklist.rule import Hit, Rule


def judge(resumed: ResumedFolder, limits: Any) -> Iterator[Hit]:
    if resumed.found is None and resumed.is_new:
        yield Hit(
            f"fit(ckpt_path='last') looks for a checkpoint in {resumed.folder}, which is new in every run, and begins "
            "anew",
            resumed.place,
        )


RULE = Rule(
    id="paths/nothing-to-resume",
    item="paths",
    question="Can a run that is to go on from its last checkpoint find one?",
    why="what was trained so far is left behind, and the run looks as if it had been resumed: Lightning only warns",
    severity=FAILED,
    evidence=ResumedFolder,
    judge=judge,
    fix=Fix("give ckpt_path the file of the run to go on from, or checkpoints a folder that all runs share"),
    faulty=lambda: ResumedFolder(None, True, "outputs/2026-11-23/10-00-00/checkpoints"),
    healthy=lambda: ResumedFolder(None, False, "checkpoints"),
)
