from functools import partial

from torch.optim.lr_scheduler import OneCycleLR

from training_checklist.instruments import Schedules, scheduled
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        if each.error:
            what = f"it ends after {len(each.rates) - 1} calls, and the run has {each.run}"
            yield Hit(f"{what}: {each.error.splitlines()[0]}", each.place)


PROBE = Probe(
    question="Can the lr_scheduler be stepped until the run ends, without an exception?",
    why="training ends with an exception",
    fix=Fix("total_steps=trainer.estimated_stepping_batches with interval=step"),
    detect=detect,
    faulty=scheduled(partial(OneCycleLR, max_lr=0.01, total_steps=39)),
    healthy=scheduled(partial(OneCycleLR, max_lr=0.01, total_steps=40)),
)
