import gc

from training_checklist.instruments import FILES, Callback, Job, JobConfig, Trainer, callbacks, monitor_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    """Look for callbacks that were built, and that no Trainer has; a copy of one counts for it."""
    alive = [each for each in gc.get_objects() if issubclass(type(each), (Callback, Trainer))]
    trainers = [config.fitting, *(each for each in alive if isinstance(each, Trainer))]
    taken = {known_by(callback) for trainer in trainers for callback in getattr(trainer, "callbacks", ())}
    built = {known_by(each) for each in alive if isinstance(each, Callback)}
    for call in callbacks(config):
        if (call.found, monitor_of(call)) in built - taken:
            yield Hit(f"{call.key} is built, and the Trainer is not given it", config.place(call.key))


def known_by(callback: Callback) -> tuple[type, str]:
    monitor = getattr(callback, "monitor", None)
    return type(callback), monitor if isinstance(monitor, str) else ""


def given(callbacks: str) -> Job:
    code = FILES["train.py"].replace("callbacks=callbacks,", f"callbacks={callbacks},", 1)
    return Job(("+callbacks.checkpoint.monitor=train/loss",), {"train.py": code})


PROBE = Probe(
    question="Is every callback of the config that the program builds in a Trainer when training begins?",
    why="nobody calls it",
    severity=WARNING,
    may_be_wrong="a callback of a second Trainer, which is built when the first has trained",
    fix=Fix("Trainer(callbacks=...)"),
    detect=detect,
    faulty=given("[]"),
    healthy=given("callbacks"),
)
