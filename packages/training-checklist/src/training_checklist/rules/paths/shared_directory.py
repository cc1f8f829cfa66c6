from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.run_files import RunDirectory
from training_checklist.finding import FAILED, WARNING, Fix, Place
from training_checklist.rule import Hit, Rule


def judge(run: RunDirectory, limits: Any) -> Iterator[Hit]:
    severity = FAILED
    if run.shared:
        what = f"two jobs of this sweep share {run.path}"
    elif run.held:
        what = f"{run.path} held the results of another job already: {', '.join(run.held[:3])}"
    elif run.is_working_directory:
        what = "the run's directory is the working directory itself"
    elif run.constant and not run.typed:
        what = f"every job gets the same directory, {run.path}"
    elif run.constant:
        what, severity = f"the next run of this command gets the same directory, {run.path}", WARNING
    else:
        return
    yield Hit(what, run.place, fix=Fix(overrides=(f"{run.place.key}={run.unique}",)), severity=severity)


RULE = Rule(
    id="paths/shared-directory",
    item="paths",
    question="Does every job have a directory of its own?",
    why="the later job overwrites checkpoints and logs of the earlier one, or mixes with them",
    severity=FAILED,
    evidence=RunDirectory,
    judge=judge,
    fix=Fix("put the time or the number of the job into its directory's name"),
    faulty=lambda: RunDirectory(
        "same", constant=True, place=Place(key="hydra.run.dir", value="same"), unique="${now:%H}"
    ),
    healthy=lambda: RunDirectory("outputs/2026-11-22/10-00-00"),
)
