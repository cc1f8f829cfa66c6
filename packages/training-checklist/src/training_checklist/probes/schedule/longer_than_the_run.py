from dataclasses import replace
from functools import partial

from torch.optim.lr_scheduler import OneCycleLR

from training_checklist.instruments import MANY, SPLIT, Schedules, along, near, scheduled
from training_checklist.probe import Fix, Hit, Hits, Limits, Probe


def detect(schedules: Schedules, limits: Limits) -> Hits:
    for each in schedules.rehearsals:
        # That is schedule/counted-in-steps's.
        in_steps = each.interval == "epoch" and near(each.made_for, each.steps, limits)
        in_batches = each.accumulated > 1 and near(each.made_for, each.uncut * each.accumulated, limits)
        is_longer = in_batches or each.made_for > limits.many * each.uncut > 0
        if each.is_cycle and is_longer and not in_steps:
            of_batches = f", of {each.accumulated} batches each" if in_batches else ""
            yield Hit(f"{each.gets}{of_batches}; the last rate is {each.rates[-1]:.3g}", each.place)
        elif each.first_change > each.uncut:
            what = f"call {each.first_change:.0f} is the first that changes a rate, and the run has {each.run}"
            yield Hit(f"{what}: it ends by the lesser of max_steps and max_epochs", each.place)


def cycle(steps: int, interval: str = "step") -> object:
    return scheduled(partial(OneCycleLR, max_lr=0.01, total_steps=steps), interval)


def falling(steps: int, accumulated: int = 1) -> object:
    return along((0, 1.0), (steps, 0.0), trainer={"accumulate_grad_batches": accumulated})


def warmed_up(steps: int) -> object:
    """Make one that stays a step at its peak, as where a warm-up and a decay meet."""
    return along((0, 0.1), (4, 1.0), (5, 1.0), (steps, 0.1), trainer={"accumulate_grad_batches": 2})


PROBE = Probe(
    question="Does the lr_scheduler come to its end, or to its first change, before the run ends?",
    why="the run ends long before the schedule does, which was to lower the rate in the end",
    may_be_wrong="a run that is stopped early and resumed later sees the rest of its schedule then",
    fix=Fix("total_steps=trainer.estimated_stepping_batches with interval=step"),
    detect=detect,
    thresholds={
        "many": replace(MANY, faulty=cycle(160), healthy=cycle(100)),
        "max_split": replace(SPLIT, faulty=cycle(53, "epoch"), healthy=cycle(46, "epoch")),
    },
    faulty=cycle(900),
    healthy=cycle(40),
    also_faulty=(falling(300), falling(40, accumulated=2), warmed_up(40)),
    also_healthy=(falling(40), falling(60), falling(20, accumulated=2)),
)
