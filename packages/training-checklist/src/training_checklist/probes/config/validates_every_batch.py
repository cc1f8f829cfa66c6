from training_checklist.instruments import Job, JobConfig, given_to
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for key, _, value in given_to(config, "val_check_interval"):
        if type(value) is int and value == 1:
            fix = Fix("leave it as it is if that is meant", overrides=(f"{key}=1.0",))
            yield Hit(f"{key}=1 validates after every single training batch", config.place(key), fix=fix)


PROBE = Probe(
    question="Is val_check_interval a share (1.0), and not the integer 1, which validates after every batch?",
    why="the whole number 1 is one batch to Lightning, and 1.0 an epoch: nearly all time goes into validation",
    severity=WARNING,
    fix=Fix("1.0 for once an epoch"),
    detect=detect,
    faulty=Job(("+trainer.val_check_interval=1",)),
    healthy=Job(("+trainer.val_check_interval=1.0",)),
)
