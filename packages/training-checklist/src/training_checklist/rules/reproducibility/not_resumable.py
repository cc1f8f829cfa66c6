from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import ResumedRun
from training_checklist.finding import FAILED, NOWHERE, Finding, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

HOOKS = Place(note="on_save_checkpoint, on_load_checkpoint, or names in the network that change from run to run")


def judge(run: ResumedRun, limits: Any) -> Iterator[Hit]:
    if run.error is None and run.found is None:
        raise CannotJudge(run.obstacle)
    if run.error is None or run.pickled:
        return
    known = run.error.place.file or run.error.place.module
    yield Hit(
        f"a checkpoint cannot be resumed: {run.error.what}",
        run.error.place if known else HOOKS,
        run.error.why or None,
        run.error.fix if run.error.fix.advice else None,
    )


RULE = Rule(
    id="reproducibility/not-resumable",
    item="reproducibility",
    question="Can training be resumed from a checkpoint of the run?",
    why="whatever interrupts the run, it begins anew",
    severity=FAILED,
    evidence=ResumedRun,
    judge=judge,
    fix=Fix("load what the checkpoint holds into a network that is built alike"),
    faulty=lambda: ResumedRun({"w": "a"}, error=Finding("x/y", FAILED, "KeyError: 'ema'", NOWHERE)),
    healthy=lambda: ResumedRun({"w": "a"}, {"w": "a"}),
)
