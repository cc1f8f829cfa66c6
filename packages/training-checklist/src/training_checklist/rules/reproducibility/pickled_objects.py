from collections.abc import Iterator
from typing import Any

from training_checklist.evidence.repetition import ResumedRun
from training_checklist.finding import FAILED, REMARK, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

LISTED = 4
WHY = "torch.load and Trainer.fit(ckpt_path=...) refuse to unpickle classes, which runs code of whoever wrote the file"
TAKEN = Fix("Trainer.fit(ckpt_path=..., weights_only=False) resumes from a file of one's own")


def judge(run: ResumedRun, limits: Any) -> Iterator[Hit]:
    refused = bool(run.pickled) and run.found is None  # or the project's own call allows them
    if not run.saved or (refused and run.obstacle):  # a resumed run may end of something else
        raise CannotJudge(run.obstacle)
    if not refused:
        return
    listed = ", ".join(f"{key} ({kind})" for key, kind in run.objects[:LISTED])
    what, place = f"checkpoints hold pickled objects: {run.pickled}", Place(note=listed or "checkpoint")
    if run.keeper:
        yield Hit(what, place, f"{run.keeper} keeps them, a library's class: {WHY}", TAKEN, REMARK)
    else:
        yield Hit(what, place)


RULE = Rule(
    id="reproducibility/pickled-objects",
    item="reproducibility",
    question="Can checkpoints be loaded with torch.load(weights_only=True)?",
    why=f"{WHY}: the run cannot be resumed",
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
