from training_checklist.instruments import Job, JobConfig, Target, override_of, targets
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    failed: dict[str, list[Target]] = {}
    for each in targets(config):
        if each.problem:
            failed.setdefault(each.problem, []).append(each)
    for problem, (first, *others) in failed.items():  # an import that fails, fails for all that lies behind it
        beside = f"; the same is so for {', '.join(each.key for each in others)}" if others else ""
        yield Hit(f"{first.key}={override_of(first.named)} {problem}{beside}", config.place(first.key))


PROBE = Probe(
    question="Can every _target_ be imported and called?",
    why="nothing can be built from it",
    predicts_crash=True,
    fix=Fix("correct the name, or the import that fails"),
    detect=detect,
    faulty=Job(("logger.csv._target_=pytorch_lightning.loggers.CSVLoger",)),
    healthy=Job(),
)
