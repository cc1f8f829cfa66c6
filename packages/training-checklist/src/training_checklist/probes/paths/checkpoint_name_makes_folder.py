import re

from training_checklist.instruments import Job, RunFiles, checkpoints
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Place, Probe

INSERTED = re.compile(r"\{[^}:]*/[^}]*\}")  # a metric whose name Lightning writes before its value, slash and all


def detect(files: RunFiles, limits: Limits) -> Hits:
    for callback in checkpoints(files):
        metric = INSERTED.search(callback.filename or "") if callback.auto_insert_metric_name else None
        saved = callback.best_model_path or callback.last_model_path
        if metric is not None and saved:
            key = files.part_key(callback)
            place = files.place(f"{key}.filename") if key else Place(note="ModelCheckpoint(filename=...)")
            yield Hit(f"the slash in {metric[0]} makes a folder of each checkpoint's name", place)


def naming(filename: str) -> Job:
    return Job((f"+callbacks.checkpoint.filename='{filename}'",))


PROBE = Probe(
    question="Are the names of checkpoints free of slashes, which make folders?",
    why="the metric is named before its value, as in val/loss=0.12: the folder stays when a better checkpoint comes",
    severity=REMARK,
    fix=Fix("filename='{epoch}-{val/loss:.2f}' without names, by auto_insert_metric_name=False: 3-0.12.ckpt"),
    detect=detect,
    faulty=naming("{epoch}-{val/loss:.2f}"),
    healthy=naming("{epoch}"),
)
