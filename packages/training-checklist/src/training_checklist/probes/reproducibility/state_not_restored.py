from torch import nn

from training_checklist.instruments import KEEPING, Example, SeededRuns, Small, differing_names
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

LISTED = 4


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    run = seeded.resumed
    if run.found is None:
        raise CannotJudge(run.obstacle or "training did not begin from the checkpoint")
    lost = differing_names([run.saved, run.found])
    if lost:
        yield Hit(
            f"{len(lost)} of {len(run.saved)} values are not what they were when training is resumed: "
            f"{', '.join(lost[:LISTED])}",
            Place(parameter=lost[0], note="after Trainer.fit(ckpt_path=...)"),
            **seeded.saved.matters(PROBE.why),
        )


class Restarted(Small):
    def on_train_start(self) -> None:
        nn.init.zeros_(self.head.bias)


class Initialised(Small):
    def setup(self, stage: str) -> None:  # before the checkpoint is restored
        nn.init.zeros_(self.head.bias)


PROBE = Probe(
    question="Does resuming restore weights, optimizer states, learning rates and the step?",
    why="what the checkpoint does not bring back begins anew, and the run goes on as another one",
    fix=Fix(
        "look at on_save_checkpoint, on_load_checkpoint, state_dict, and at hooks that change weights at the start"
    ),
    detect=detect,
    faulty=Example(Restarted, trainer=KEEPING),
    healthy=Example(Initialised, trainer=KEEPING),
)
