from training_checklist.instruments import Job, JobConfig, given_to
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    for key, node, every in given_to(config, "check_val_every_n_epoch"):
        epochs = node.get("max_epochs")
        if type(every) is type(epochs) is int and 0 < epochs < every:
            what = f"{key}={every}, and the run has {epochs} epochs: it is never validated"
            yield Hit(what, config.place(key), fix=Fix(overrides=(f"{key}=1",)))


PROBE = Probe(
    question="Is check_val_every_n_epoch at most max_epochs, so that validation runs at all?",
    why="nothing tells a better epoch from a worse one: no checkpoint is the best, and no callback that waits for a "
    "metric has one",
    fix=Fix("check_val_every_n_epoch=1"),
    detect=detect,
    faulty=Job(("+trainer.max_epochs=6", "+trainer.check_val_every_n_epoch=7")),
    healthy=Job(("+trainer.max_epochs=6", "+trainer.check_val_every_n_epoch=6")),
)
