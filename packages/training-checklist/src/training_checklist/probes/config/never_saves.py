from omegaconf import OmegaConf

from training_checklist.instruments import Job, JobConfig, ModelCheckpoint, callbacks
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(config: JobConfig, limits: Limits) -> Hits:
    epochs = OmegaConf.select(config.job, "trainer.max_epochs")
    for call in callbacks(config, ModelCheckpoint):
        every, key = call.node.get("every_n_epochs"), f"{call.key}.every_n_epochs"
        otherwise = call.node.get("every_n_train_steps") or call.node.get("train_time_interval")
        if type(every) is type(epochs) is int and 0 < epochs < every and not otherwise:
            what = f"{key}={every}, and the run has {epochs} epochs: this ModelCheckpoint saves nothing"
            yield Hit(what, config.place(key), fix=Fix(overrides=(f"{key}=1",)))


PROBE = Probe(
    question="Is every_n_epochs of each ModelCheckpoint at most max_epochs, so that it saves at all?",
    why="what was trained is lost, and loading the best checkpoint afterwards fails",
    fix=Fix("every_n_epochs=1"),
    detect=detect,
    faulty=Job(("+trainer.max_epochs=6", "+callbacks.checkpoint.every_n_epochs=7")),
    healthy=Job(("+trainer.max_epochs=6", "+callbacks.checkpoint.every_n_epochs=6")),
)
