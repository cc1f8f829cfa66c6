from training_checklist.instruments import Job, JobConfig, override_of, targets
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for each in targets(config):
        if each.problem:
            yield Hit(f"{each.key}={override_of(each.named)} {each.problem}", config.place(each.key))


PROBE = Probe(
    question="Can every _target_ be imported and called?",
    why="nothing can be built from it",
    foretells_crash=True,
    fix=Fix("correct the name, or the import that fails"),
    detect=detect,
    faulty=Job(("logger.csv._target_=pytorch_lightning.loggers.CSVLoger",)),
    healthy=Job(),
)
