from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import ResumedRun
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

LISTED = 4


def judge(run: ResumedRun, limits: Any) -> Iterator[Hit]:
    if not run.saved:
        raise CannotJudge(run.obstacle)
    if not run.pickled or run.found is not None:  # the project's own call allows them
        return
    listed = ", ".join(f"{key} ({kind})" for key, kind in run.objects[:LISTED])
    yield Hit(f"checkpoints hold pickled objects: {run.pickled}", Place(note=listed or "checkpoint"))


RULE = Rule(
    id="reproducibility/pickled-objects",
    item="reproducibility",
    question="Can a checkpoint be read without unpickling classes?",
    why="torch.load and Trainer.fit(ckpt_path=...) refuse to unpickle classes, because that runs code of whoever wrote "
    "the file: the run cannot be resumed",
    severity=FAILED,
    evidence=ResumedRun,
    judge=judge,
    fix=Fix(
        "save plain values: OmegaConf.to_container(...) or _convert_: all for hyperparameters, "
        "self.save_hyperparameters(ignore=[...]), str(path)"
    ),
    faulty=lambda: ResumedRun(saved={"w": "a"}, pickled="pathlib.PosixPath"),
    healthy=lambda: ResumedRun(saved={"w": "a"}, found={"w": "a"}, pickled="pathlib.PosixPath"),
)
