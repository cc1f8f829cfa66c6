from functools import partial

from torch.optim.lr_scheduler import LRScheduler, StepLR

from training_checklist.instruments import Schedules, scheduled
from training_checklist.probe import Fix, Hit, Hits, Limits, Place, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    trainer, module = schedules.trainer, schedules.trainer.lightning_module
    if not schedules.untold:
        # Every schedule leaves this key in its optimizer; so does a checkpoint.
        made = any("initial_lr" in group for optimizer in trainer.optimizers for group in optimizer.param_groups)
        held = trainer.lr_scheduler_configs or any(isinstance(value, LRScheduler) for value in vars(module).values())
        if made and not held and trainer.ckpt_path is None:
            fix = 'return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "epoch"}}'
            yield Hit("a schedule was made for the optimizer, but nobody has it", schedules.place, fix=Fix(fix))
        for each in schedules.rehearsed:
            if each.calls < 1 and each.frequency > 1 and not each.error:
                of = f"{each.batches} batches" if each.interval == "step" else f"{each.epochs:g} epochs"
                what = f"it is never stepped: frequency={each.frequency}, but there are {of} to count"
                yield Hit(what, each.place, fix=Fix("frequency=1 where configure_optimizers returns the schedule"))
    for calls in schedules.calls:
        if calls.manual and calls.trained and not calls.within + calls.by_hand:
            what = f"nobody has stepped {calls.schedule} in two epochs: with manual optimization Lightning does not"
            yield Hit(what, Place(note=f"lr_scheduler {calls.schedule}"))


PROBE = Probe(
    question="Is every lr_scheduler that configure_optimizers makes stepped at least once?",
    why="the learning rate stays what it is at first, such as that of the first step of a warm-up",
    fix=Fix("self.lr_schedulers().step() in training_step, or in on_train_epoch_end, as its length is counted"),
    detect=detect,
    aliases=("schedule/not-returned", "schedule/nobody-steps-it"),
    faulty=scheduled(partial(StepLR, step_size=1), frequency=9),
    healthy=scheduled(partial(StepLR, step_size=1), frequency=8),
)
