from pathlib import Path
from typing import Any

from training_checklist.instruments import KEEPING, Example, SeededRuns, Small
from training_checklist.probe import REMARK, CannotJudge, Fix, Hit, Hits, Limits, Place, Probe

LISTED = 4
WHY = "torch.load and Trainer.fit(ckpt_path=...) refuse to unpickle classes, which runs code of whoever wrote the file"
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
            yield Hit(what, place, **seeded.saved.matters(WHY))


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
    healthy=Example(type("Plain", (Noting,), {"kind": str}), trainer=KEEPING),
)
