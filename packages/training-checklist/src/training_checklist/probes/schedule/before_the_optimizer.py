from functools import partial
from typing import Any

from torch import Tensor
from torch.optim.lr_scheduler import StepLR

from training_checklist.instruments import Schedules, Small
from training_checklist.probe import WARNING, Fix, Hit, Hits, Limits, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for calls in schedules.calls:
        if calls.early:
            yield Hit(f"{calls.schedule} is stepped before the optimizer has taken a step", calls.place)


class First(Small):
    """Steps by hand: the schedule first, or last."""

    schedule_first = True

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = super().training_step(batch, batch_idx)
        self.manual_backward(loss)
        steps = [partial(self.lr_schedulers().step, *self.told()), self.optimizers().step]
        for step in steps if self.schedule_first else reversed(steps):
            step()
        return loss

    def told(self) -> list[int]:
        return []

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        return [optimizer], [StepLR(optimizer, 1)]


class Told(First):
    """Tells the schedule which epoch it is."""

    def told(self) -> list[int]:
        return [self.current_epoch]


PROBE = Probe(
    question="Is optimizer.step() called before the first lr_scheduler.step()?",
    why="the first rate of the schedule is never used",
    severity=WARNING,
    fix=Fix("step it after the optimizer: in on_train_batch_end or on_train_epoch_end, or leave it to Lightning"),
    detect=detect,
    faulty=First,
    healthy=type("Last", (First,), {"schedule_first": False}),
    also_healthy=(Told,),
)
