from typing import Any

from torch.optim import SGD
from torch.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR

from training_checklist.instruments import Example, Schedules, Small, schedules_of
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    _ = schedules.calls  # some steps were taken
    for optimizer in schedules.trainer.optimizers:
        made, now = schedules.made_with.get(id(optimizer), []), [float(group["lr"]) for group in optimizer.param_groups]
        peaks = schedules.peaks.get(id(optimizer), now)
        name = " and ".join(schedules_of(optimizer, schedules.trainer))
        by_schedule, by_hand = (len({*rates}) == 1 and rates[0] > 0 for rates in (peaks, now))
        by_hand &= not name  # a schedule of rates that differ may come to one floor
        if len(made) == len(now) and len({*made}) > 1 and (by_schedule or by_hand):
            who = name or "something that writes to param_groups"
            yield Hit(
                f"the optimizer's groups were made with rates of {', '.join(f'{each:.3g}' for each in made)}, and "
                f"{who} gives all of them one: {(peaks if by_schedule else now)[0]:.3g}",
                schedules.place.beside(note=name),
            )


class Grouped(Small):
    peak: Any = 0.01

    def configure_optimizers(self) -> Any:
        optimizer = SGD([{"params": self.first.parameters(), "lr": 0.001}, {"params": self.head.parameters()}], 0.01)
        return [optimizer], [OneCycleLR(optimizer, self.peak, self.trainer.estimated_stepping_batches)]


class ToOneFloor(Grouped):
    def configure_optimizers(self) -> Any:
        optimizer = SGD([{"params": self.first.parameters(), "lr": 0.001}, {"params": self.head.parameters()}], 0.01)
        return [optimizer], [CosineAnnealingLR(optimizer, self.trainer.max_epochs, eta_min=1e-7)]


PROBE = Probe(
    question="Does each parameter group keep a learning rate of its own under the lr_scheduler?",
    why="layers that were to move slowly, as pretrained ones, move as fast as new ones",
    fix=Fix("give the schedule a rate for each group: OneCycleLR(optimizer, max_lr=[...]), or multiply each"),
    detect=detect,
    faulty=Grouped,
    healthy=type("Apart", (Grouped,), {"peak": [0.001, 0.01]}),
    also_healthy=(Example(ToOneFloor, trainer={"max_epochs": 2}),),
)
