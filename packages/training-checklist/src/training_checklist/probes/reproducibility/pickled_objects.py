from pathlib import Path
from typing import Any

from torch import nn

from training_checklist.instruments import KEEPING, Example, SeededRuns, Small
from training_checklist.probe import REMARK, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

LISTED = 4
WHY = "torch.load and Trainer.fit(ckpt_path=...) refuse to unpickle classes, which runs code of whoever wrote the file"
CALLED = Fix("call the lazy layer, which no batch has reached, or remove it")
TAKEN = Fix("Trainer.fit(ckpt_path=..., weights_only=False) resumes from a file of one's own")


def detect(seeded: SeededRuns, limits: Limits) -> Hits:
    run = seeded.resumed
    refused = bool(run.pickled) and run.found is None  # or the project's own call allows them
    if not run.saved or (refused and run.obstacle and seeded.saved.resumes):  # by a call that may allow them
        raise CannotJudge(run.obstacle)
    if refused:
        listed = ", ".join(f"{key} ({kind})" for key, kind in run.objects[:LISTED])
        what, place = f"checkpoints hold pickled objects: {run.pickled}", Place(note=listed or "checkpoint")
        if run.keeper:
            yield Hit(what, place, f"{run.keeper} keeps them, a library's class: {WHY}", TAKEN, REMARK)
        else:
            waits = run.pickled.startswith("torch.nn.parameter.Uninitialized")
            yield Hit(what, place, fix=CALLED if waits else None, **seeded.saved.matters(WHY))


class Waiting(Small):
    """Has a layer that waits for its first batch, and gets none."""

    def __init__(self) -> None:
        super().__init__()
        self.never = nn.LazyLinear(4)


class Noting(Small):
    """Writes a path into its checkpoints."""

    kind: type = Path

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["folder"] = self.kind("runs")


PROBE = Probe(
    question="Can checkpoints be loaded with torch.load(weights_only=True)?",
    why=f"{WHY}: the run cannot be resumed",
    fix=Fix(
        "save plain values: OmegaConf.to_container(...) or _convert_: all for hyperparameters, "
        "self.save_hyperparameters(ignore=[...]), str(path)"
    ),
    detect=detect,
    faulty=Example(Noting, trainer=KEEPING),
    also_faulty=(Example(Waiting, trainer=KEEPING),),
    healthy=Example(type("Plain", (Noting,), {"kind": str}), trainer=KEEPING),
)
