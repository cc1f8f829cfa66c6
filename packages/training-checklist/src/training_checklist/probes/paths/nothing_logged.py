from training_checklist.instruments import Job, RunFiles, logged
from training_checklist.probe import REMARK, Fix, Hit, Hits, Limits, Probe


def detect(files: RunFiles, limits: Limits) -> Hits:
    anything = bool(files.trainer.logged_metrics or files.trainer.callback_metrics)
    found = logged(files)
    held = any(each.count for each in found)
    for values in found:
        if values.count:
            continue
        what = f"{values.file} is missing in" if values.count is None else f"{values.file} holds no values, in"
        if held and values.left:
            why = "others hold what was logged: a logger that is built, and not given to the Trainer, leaves this one"
            yield Hit(f"{what} {values.folder}", values.place, severity=REMARK, why=why, fix=Fix("build loggers once"))
        elif anything:
            why = "metrics were logged, but not one has reached the file: nobody can look at the run later"
            fix = Fix("look for self.log(..., logger=False), and for a logger that is closed or replaced too early")
            yield Hit(f"{what} {values.folder}", values.place, why=why, fix=fix)
        else:
            yield Hit(f"{what} {values.folder}", values.place, severity=None if values.asked else REMARK)


PROBE = Probe(
    question="Do the files of each logger hold at least one logged value?",
    why="nothing was logged in training or validation: nobody can look at the run later",
    fix=Fix("in training_step and validation_step: self.log('train/loss', loss)"),
    detect=detect,
    faulty=Job(("quiet=true",)),
    healthy=Job(),
)
