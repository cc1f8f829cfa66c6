from typing import Any

import torch
from omegaconf import OmegaConf
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader

from training_checklist.instruments import FILES, Job, Schedules, Validated, loader, own_config, validated
from training_checklist.probe import CannotJudge, Fix, Hit, Hits, Limits, Place, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    """Compare when the project's own training, of which this run is a part, steps it and validates."""
    _ = schedules.calls  # validation has logged what it logs
    config, trainer = own_config(), schedules.trainer
    every = OmegaConf.select(config, "trainer.check_val_every_n_epoch") if config is not None else None
    if not isinstance(every, int):
        raise CannotJudge("no config gives trainer.check_val_every_n_epoch")
    for each in trainer.lr_scheduler_configs:
        waits = each.reduce_on_plateau and each.interval == "epoch" and each.strict
        if waits and each.monitor in validated(trainer) and each.frequency % every:
            yield Hit(
                f"ReduceLROnPlateau is stepped every {each.frequency} epochs, and {each.monitor}, which it waits for, "
                f"is there every {every}: training raises MisconfigurationException",
                Place(key="trainer.check_val_every_n_epoch", value=str(every), note="ReduceLROnPlateau"),
            )


class Waiting(Validated):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val/loss", self.loss(self(batch[0]), batch[1]))

    def val_dataloader(self) -> DataLoader:
        return loader()

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.SGD(self.parameters(), 0.01)
        return [optimizer], [{"scheduler": ReduceLROnPlateau(optimizer), "monitor": "val/loss"}]


def validating(every: int) -> Job:
    program = FILES["train.py"].replace(
        "import Small, loader", f"import loader\nfrom {__name__} import Waiting as Small"
    )
    config = FILES["conf/train.yaml"].replace("trainer:\n", f"trainer:\n  check_val_every_n_epoch: {every}\n")
    return Job((), {"train.py": program, "conf/train.yaml": config})


PROBE = Probe(
    question="Is the metric of ReduceLROnPlateau logged whenever Lightning steps it?",
    why="validation does not run in each epoch, and Lightning wants the metric whenever it steps the schedule",
    fix=Fix('"frequency": trainer.check_val_every_n_epoch beside "scheduler" in configure_optimizers'),
    detect=detect,
    faulty=validating(2),
    healthy=validating(1),
)
