from collections.abc import Iterator
from typing import Any

from training_checklist.engines.first_difference import differing
from training_checklist.evidence.repetition import ResumedRun
from training_checklist.finding import FAILED, Fix, Place
from training_checklist.rule import CannotJudge, Hit, Rule

LISTED = 4


def judge(run: ResumedRun, limits: Any) -> Iterator[Hit]:
    if run.found is None:
        raise CannotJudge(run.obstacle or "training did not begin from the checkpoint")
    lost = differing([run.saved, run.found])
    if lost:
        yield Hit(
            f"{len(lost)} of {len(run.saved)} values are not what they were when training is resumed: "
            f"{', '.join(lost[:LISTED])}",
            Place(parameter=lost[0], note="after Trainer.fit(ckpt_path=...)"),
        )


RULE = Rule(
    id="reproducibility/state-not-restored",
    item="reproducibility",
    question="Does resuming restore weights, optimizer states, learning rates and the step?",
    why="what the checkpoint does not bring back begins anew, and the run goes on as another one",
    severity=FAILED,
    evidence=ResumedRun,
    judge=judge,
    fix=Fix(
        "look at on_save_checkpoint, on_load_checkpoint, state_dict, and at hooks that change weights at the start"
    ),
    faulty=lambda: ResumedRun({"w": "a", "lr": 0.1}, {"w": "b", "lr": 0.1}),
    healthy=lambda: ResumedRun({"w": "a", "lr": 0.1}, {"w": "a", "lr": 0.1}),
)
