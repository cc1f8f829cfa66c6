from training_checklist.instruments import Job, JobConfig, given_to
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for key, node, value in given_to(config, "limit_train_batches"):
        epochs = node.get("max_epochs") if node.get("max_steps", -1) in (-1, None) else None
        if type(value) is int and value == 1 and epochs != 1:
            what = f"{key}=1 is one batch in each of {'many' if epochs is None else epochs} epochs"
            fix = Fix("leave it as it is if one batch is meant", overrides=(f"{key}=1.0",))
            yield Hit(what, config.place(key), fix=fix)


PROBE = Probe(
    question="Is limit_train_batches a share (1.0), and not the integer 1, which is a single batch?",
    why="the whole number 1 is one batch to Lightning, and 1.0 all of them",
    severity=WARNING,
    fix=Fix("1.0 for all batches"),
    detect=detect,
    faulty=Job(("+trainer.limit_train_batches=1",)),
    healthy=Job(("+trainer.limit_train_batches=1.0",)),
)
