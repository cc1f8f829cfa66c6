from typing import Any

from torch.optim.lr_scheduler import CosineAnnealingLR

from training_checklist.instruments import Schedules, Small
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for calls in (each for each in schedules.calls if each.turns):
        by = f"Lightning has given {calls.schedule} {calls.turns} turns to be stepped"
        if calls.by_hand:
            yield Hit(f"{by}, and the project's own code has stepped it {calls.by_hand} times beside them", calls.place)
        if calls.within > calls.turns:  # fewer may be meant: it waits for an epoch, or sets rates by another method
            yield Hit(f"{by}, and lr_scheduler_step has called its step() {calls.within} times", calls.place)


class Stepped(Small):
    times, waits = 1, False

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        return [optimizer], [CosineAnnealingLR(optimizer, 5)]

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        for _ in range(0 if self.waits and self.current_epoch < 1 else self.times):
            scheduler.step()


class OfEpochs(CosineAnnealingLR):
    """Is at the rate of the epoch that it is told, as timm's schedules are."""

    def step(self, epoch: int | None = None) -> None:
        if epoch is None or epoch > self.last_epoch:
            super().step()


class Told(Stepped):
    def configure_optimizers(self) -> Any:
        optimizer = Small.configure_optimizers(self)
        return [optimizer], [OfEpochs(optimizer, 5)]

    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        for _ in range(2):
            scheduler.step(epoch=self.current_epoch)


PROBE = Probe(
    question="Is the lr_scheduler stepped no more often than its interval and frequency say?",
    why="it goes through its rates faster than interval and frequency say",
    fix=Fix("leave it to Lightning, or do not return it from configure_optimizers and step it by hand alone"),
    detect=detect,
    faulty=type("Twice", (Stepped,), {"times": 2}),
    healthy=Stepped,
    also_healthy=(type("Waiting", (Stepped,), {"waits": True}), Told),
)
