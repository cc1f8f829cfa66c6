from functools import partial

from torch.optim.lr_scheduler import LambdaLR, OneCycleLR

from training_checklist.instruments import Schedules, scheduled
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        if each.error:
            what = f"it ends after {len(each.rates) - 1} calls, and the run has {each.run}"
            yield Hit(f"{what}: {each.error.splitlines()[0]}", each.place)


def polynomial(calls: int) -> partial:
    return partial(LambdaLR, lr_lambda=lambda call: (1 - call / calls) ** 0.9)


PROBE = Probe(
    question="Can the lr_scheduler be stepped until the run ends, without an exception?",
    why="training ends with an exception",
    fix=Fix("make it for as many calls as the run has: total_steps=trainer.estimated_stepping_batches, interval=step"),
    detect=detect,
    faulty=scheduled(partial(OneCycleLR, max_lr=0.01, total_steps=39)),
    also_faulty=(scheduled(polynomial(39)),),
    healthy=scheduled(partial(OneCycleLR, max_lr=0.01, total_steps=40)),
    also_healthy=(scheduled(polynomial(40)),),
)
