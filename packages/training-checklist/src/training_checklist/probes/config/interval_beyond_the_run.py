from dataclasses import replace

from omegaconf import DictConfig, OmegaConf

from training_checklist.instruments import Job, JobConfig, ModelCheckpoint, callbacks, given_to, monitor_of
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Place, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    waiting = [monitor_of(call) for call in callbacks(config) if monitor_of(call)]
    for key, node, every in given_to(config, "check_val_every_n_epoch"):
        if waiting and is_beyond(every, node.get("max_epochs")):  # without one, validation may come after training
            so = f"it is never validated, and callbacks wait for {waiting[0]}"
            yield replace(hit(config.place(key), every, node.max_epochs, so), severity=WARNING)  # it may be too slow
    epochs = OmegaConf.select(config.job, "trainer.max_epochs")
    savers = list(callbacks(config, ModelCheckpoint))
    idle = [call for call in savers if saves_nothing(call.node, epochs)]
    for call in idle if len(idle) == len(savers) else ():  # beside another one, snapshots are of a longer run
        place, every = config.place(f"{call.key}.every_n_epochs"), call.node.every_n_epochs
        yield hit(place, every, epochs, "this ModelCheckpoint saves nothing, and what was trained is lost")


def saves_nothing(node: DictConfig, epochs: object) -> bool:
    others = ("every_n_train_steps", "train_time_interval", "save_last")  # the last one saves as training ends
    return is_beyond(node.get("every_n_epochs"), epochs) and not any(node.get(each) for each in others)


def is_beyond(every: object, epochs: object) -> bool:
    return type(every) is type(epochs) is int and 0 < epochs < every


def hit(place: Place, every: int, epochs: int, so: str) -> Hit:
    return Hit(f"{place.key}={every}, and the run has {epochs} epochs: {so}", place, fix=Fix("", (f"{place.key}=1",)))


SELDOM = ("+callbacks.checkpoint.every_n_epochs=7",)
# As where training has no validation, or trainer.validate() comes after it; with a monitor, it is a mistake.
NEVER = ("+trainer.max_epochs=6", "+trainer.check_val_every_n_epoch=7")

PROBE = Probe(
    question="Are check_val_every_n_epoch and ModelCheckpoint.every_n_epochs at most max_epochs, so that the run "
    "validates and saves at all?",
    why="nothing tells a better epoch from a worse one, and loading the best checkpoint afterwards fails",
    fix=Fix("every epoch: 1"),
    aliases=("config/never-saves", "config/never-validates"),
    detect=detect,
    faulty=Job(("+trainer.max_epochs=6", *SELDOM)),
    also_faulty=(Job((*NEVER, "+callbacks.checkpoint.monitor=val/loss")),),
    healthy=Job(
        ("+trainer.max_epochs=6", "+callbacks.checkpoint.every_n_epochs=6", "+trainer.check_val_every_n_epoch=6")
    ),
    also_healthy=(
        Job(NEVER),
        Job((*NEVER[:1], *SELDOM, "+callbacks.checkpoint.save_last=true")),
        Job((*NEVER[:1], *SELDOM, "+callbacks.best={_target_: pytorch_lightning.callbacks.ModelCheckpoint}")),
    ),
)
